/** Which of the person's studios this tab works in. */
const KEY = "farmhand.studio";

export function chosenStudio(): string {
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "";
}

export function chooseStudio(id: string): void {
  sessionStorage.setItem(KEY, id);
  localStorage.setItem(KEY, id);
}

export function forgetStudio(): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}
