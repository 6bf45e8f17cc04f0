/** Colours and letters. Greys are neutral, because people judge pictures beside them. */
import { Anchor, type CSSVariablesResolver, createTheme, type MantineColorsTuple } from "@mantine/core";

const dark: MantineColorsTuple = [
  "#e6e6e6",
  "#d0d0d0",
  "#b4b4b4",
  "#8f8f8f",
  "#5c5c5c",
  "#454545",
  "#343434",
  "#262626",
  "#1d1d1d",
  "#141414",
];
const gray: MantineColorsTuple = [
  "#fafafa",
  "#f2f2f2",
  "#e6e6e6",
  "#d9d9d9",
  "#c4c4c4",
  "#9e9e9e",
  "#767676",
  "#555555",
  "#333333",
  "#1f1f1f",
];
/** `close` is what closing is called in the reader's language: a cross alone has no name. */
export function themeWith(close: string) {
  return createTheme({
    colors: { dark, gray },
    primaryColor: "blue",
    primaryShade: 8, // white words on it are legible in both schemes
    fontFamily: "'Inter Variable', system-ui, 'Noto Sans SC', 'PingFang SC', 'Microsoft YaHei', sans-serif",
    fontFamilyMonospace: "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, monospace",
    defaultRadius: "sm",
    cursorType: "pointer",
    components: {
      // A link among words is told by more than its colour.
      Anchor: Anchor.extend({ defaultProps: { underline: "always" } }),
      CloseButton: { defaultProps: { "aria-label": close } },
    },
  });
}

/** Where Mantine's own shades are too faint to read by WCAG's measure. */
export const legible: CSSVariablesResolver = () => ({
  variables: {},
  light: { "--mantine-color-error": "#c92a2a", "--mantine-color-placeholder": "#6b6b6b" },
  dark: { "--mantine-color-error": "#ff8787", "--mantine-color-placeholder": "#a3a3a3" },
});
