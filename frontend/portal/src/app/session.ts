/** Where this tab works: in which of the person's studios, and in which of its projects. Other tabs may work elsewhere. */
const STUDIO = "farmhand.studio";
const PROJECT = "farmhand.project";

function remembered(key: string): string {
  return sessionStorage.getItem(key) ?? localStorage.getItem(key) ?? "";
}

function remember(key: string, value: string): void {
  for (const store of [sessionStorage, localStorage]) {
    if (value) store.setItem(key, value);
    else store.removeItem(key);
  }
}

export function chosenStudio(): string {
  return remembered(STUDIO);
}

export function chooseStudio(id: string): void {
  if (id !== chosenStudio()) chooseProject("");
  remember(STUDIO, id);
}

export function forgetStudio(): void {
  chooseStudio("");
}

/** The project whose jobs are listed and where new ones go; empty: all of the studio's. */
export function chosenProject(): string {
  return remembered(PROJECT);
}

export function chooseProject(id: string): void {
  // Nothing chosen must be remembered too, or this tab would take what another one chose.
  sessionStorage.setItem(PROJECT, id);
  localStorage.setItem(PROJECT, id);
}
