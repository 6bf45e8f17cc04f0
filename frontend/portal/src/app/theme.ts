/** Colours and letters. Greys are neutral, because people judge pictures beside them. */
import { createTheme, type MantineColorsTuple } from "@mantine/core";

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
const amber: MantineColorsTuple = [
  "#fff6e6",
  "#fdeacb",
  "#f8d399",
  "#f3ba63",
  "#eea638",
  "#e8a33d",
  "#a86a08",
  "#8f5a06",
  "#744803",
  "#573500",
];

export const theme = createTheme({
  colors: { dark, gray, amber },
  primaryColor: "amber",
  primaryShade: { light: 7, dark: 5 },
  autoContrast: true,
  luminanceThreshold: 0.35,
  fontFamily: "'Inter Variable', system-ui, 'Noto Sans SC', 'PingFang SC', 'Microsoft YaHei', sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, monospace",
  defaultRadius: "sm",
  cursorType: "pointer",
});
