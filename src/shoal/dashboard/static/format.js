// Numbers with units, as the command line writes them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NO_VALUE = "–";

export function count(value) {
  return value === null || value === undefined ? NO_VALUE : WHOLE.format(value);
}

// 1,234 up to 9,999; then 12.3 k, 123 k, 1.23 M
export function short(value) {
  if (value === null || value === undefined) return NO_VALUE;
  const size = Math.abs(value);
  if (size < 10_000) return WHOLE.format(value);
  if (size < 999_500) return `${Number((value / 1e3).toPrecision(3))} k`;
  if (size < 1e9) return `${(value / 1e6).toPrecision(3)} M`;
  return `${(value / 1e9).toPrecision(3)} G`;
}

export function rate(value) {
  if (value === null || value === undefined) return NO_VALUE;
  if (value >= 100 || Number.isInteger(value)) return WHOLE.format(value);
  if (value >= 10) return value.toFixed(1);
  return value >= 0.995 ? value.toFixed(1) : value.toPrecision(2).replace(/\.?0+$/, "");
}

export function bytes(value) {
  if (value === null || value === undefined) return NO_VALUE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) { size /= 1000; unit += 1; }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toPrecision(size >= 10 ? 3 : 2)} ${units[unit]}`;
}

export function ms(value) {
  if (value === null || value === undefined) return NO_VALUE;
  if (value === 0) return "0";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 10 ? `${WHOLE.format(value)} ms` : `${value.toFixed(1)} ms`;
}

// As the command line has it, at most two units: 40 ms, 0.4 s, 12 s, 3m 05s, 2h 10m, 4d 03h
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NO_VALUE;
  if (seconds <= 0) return "0 s";
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${WHOLE.format(Math.floor(whole / 86_400))}d ${two(Math.floor((whole % 86_400) / 3600))}h`;
}

function roughly(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${WHOLE.format(seconds / 86_400)} days`;
}

export function percent(share) {
  if (share === null || share === undefined) return NO_VALUE;
  const value = 100 * share;
  return `${value >= 99.95 || value < 0.05 ? Math.round(value) : value.toFixed(1)} %`;
}

export function money(value) {
  return value ? value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : "0.00";
}

export function clock(at, { seconds = true } = {}) {
  return new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) });
}

export function moment(at) {
  if (!at) return NO_VALUE;
  const date = new Date(at * 1000);
  const today = new Date().toDateString() === date.toDateString();
  const day = date.toLocaleDateString("en-GB", { day: "2-digit", month: "short", year: "numeric" });
  return today ? clock(at) : `${day} ${clock(at, { seconds: false })}`;
}

export function ago(at, now = Date.now() / 1000) {
  if (!at) return NO_VALUE;
  const passed = now - at;
  return passed < 1.5 ? "now" : passed < 0 ? `in ${roughly(-passed)}` : `${roughly(passed)} ago`;
}

export function full(at) {
  return at ? new Date(at * 1000).toISOString().replace("T", " ").replace(".000Z", "Z").replace(/\.(\d{3})Z/, ".$1Z") : "";
}

// As `shoal top` has it: 20/s, 1 in 30 s, none.
export function pace(interval) {
  if (interval <= 0) return "no limit";
  if (interval <= 1) return `${Number((1 / interval).toPrecision(3))}/s`;
  return interval < 100 ? `1 in ${Number(interval.toPrecision(3))} s` : `1 in ${duration(interval)}`;
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}
