/** Every view has an address. Pages come when they are gone to. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { NotThere } from "@/features/core/NotThere";
import { type JobSearch, readJobSearch } from "@/features/jobs/job/search";
import { type NewSearch, readNewSearch } from "@/features/jobs/new/search";
import { type JobsSearch, readJobsSearch } from "@/features/jobs/search";
import { Shell } from "./Shell";
import { Failure } from "./states";

const root = createRootRoute({
  notFoundComponent: NotThere,
  errorComponent: ({ error, reset }) => <Failure error={error} again={reset} />,
});
const inside = createRoute({ getParentRoute: () => root, id: "inside", component: Shell });
const text = (value: unknown) => (typeof value === "string" ? value : undefined);

const door = [
  createRoute({
    getParentRoute: () => root,
    path: "/sign-in",
    validateSearch: (search: Record<string, unknown>): { back?: string } => ({ back: text(search.back) }),
    component: lazyRouteComponent(() => import("@/features/studios/SignInPage"), "SignInPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/forgotten",
    component: lazyRouteComponent(() => import("@/features/studios/ForgottenPage"), "ForgottenPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/set-password/$key",
    component: lazyRouteComponent(() => import("@/features/studios/SetPasswordPage"), "SetPasswordPage"),
  }),
] as const;
const pages = [
  createRoute({
    getParentRoute: () => inside,
    path: "/",
    beforeLoad: () => {
      throw redirect({ to: "/jobs" });
    },
  }),
  createRoute({
    getParentRoute: () => inside,
    path: "/jobs",
    validateSearch: (search: Record<string, unknown>): JobsSearch => readJobsSearch(search),
    component: lazyRouteComponent(() => import("@/features/jobs/JobsPage"), "JobsPage"),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: "/jobs/$jobId",
    validateSearch: (search: Record<string, unknown>): JobSearch => readJobSearch(search),
    component: lazyRouteComponent(() => import("@/features/jobs/job/JobPage"), "JobPage"),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: "/new",
    validateSearch: (search: Record<string, unknown>): NewSearch => readNewSearch(search),
    component: lazyRouteComponent(() => import("@/features/jobs/new/NewJobPage"), "NewJobPage"),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: "/fleet",
    validateSearch: (search: Record<string, unknown>): { tab?: string } => ({ tab: text(search.tab) }),
    component: lazyRouteComponent(() => import("@/features/fleet/FleetPage"), "FleetPage"),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: "/settings",
    validateSearch: (search: Record<string, unknown>): { tab?: string } => ({ tab: text(search.tab) }),
    component: lazyRouteComponent(() => import("@/features/studios/SettingsPage"), "SettingsPage"),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren([...door, inside.addChildren(pages)]),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
