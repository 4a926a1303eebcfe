/* Elements, numbers and colours: what every page uses. Texts become text nodes, never markup. */
const SVG = new Set(['svg', 'g', 'path', 'line', 'circle', 'text', 'rect', 'title', 'desc']);

export function h(tag, attrs = {}, ...kids) {
  const e = SVG.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...kids.flat(Infinity).filter(x => x !== null && x !== undefined && x !== false));
  return e;
}

export const main = document.getElementById('main');
const block = document.getElementById('data');
export const DATA = JSON.parse(block ? block.textContent : 'null');

export const words = name => String(name).replaceAll('_', ' ');
export function fix(v, d = 3) {
  if (v === null || v === undefined || Number.isNaN(v)) return '–';
  const a = Math.abs(v);
  if (a >= 1000) return Math.round(v).toLocaleString('en-US');
  if (a >= 10) return Number.isInteger(v) ? String(v) : v.toFixed(1);
  if (Number.isInteger(v) && a > 0) return String(v);
  const text = v.toFixed(d);
  return Number(text) === 0 ? (0).toFixed(d) : text;
}
export function size(bytes) {
  if (bytes === null || bytes === undefined) return '–';
  for (const [unit, n] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) if (bytes >= n) return (bytes / n).toFixed(bytes >= 100 * n ? 0 : 1) + ' ' + unit;
  return Math.round(bytes) + ' B';
}
export function span(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 1) return Math.max(0, seconds).toFixed(2) + ' s';
  if (seconds < 120) return seconds.toFixed(seconds < 10 ? 1 : 0) + ' s';
  if (seconds < 7200) return Math.round(seconds / 60) + ' min';
  return seconds < 172800 ? Math.round(seconds / 3600) + ' h' : Math.round(seconds / 86400) + ' days';
}

/* numbers that Python packed into 16 bits each */
export function unpack(p) {
  const raw = atob(p.data), [rows, columns] = p.shape, out = [];
  for (let r = 0, k = 0; r < rows; r++) {
    const row = new Array(columns);
    for (let c = 0; c < columns; c++, k += 2) {
      const q = raw.charCodeAt(k) + 256 * raw.charCodeAt(k + 1);
      row[c] = q === 65535 ? null : p.lo + q / 65534 * (p.hi - p.lo);
    }
    out.push(row);
  }
  return out;
}

const root = document.documentElement;
export const css = name => getComputedStyle(root).getPropertyValue(name).trim();
const hex = c => [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16));
/* a colour between the two ends of the scale, and black or white for what is written on it */
export function shades() {
  const a = hex(css('--low')), b = hex(css('--high'));
  const mix = t => a.map((x, i) => Math.round(x + (b[i] - x) * Math.max(0, Math.min(1, t))));
  return {
    of: t => `rgb(${mix(t)})`,
    on: t => { const m = mix(t); return .3 * m[0] + .59 * m[1] + .11 * m[2] > 140 ? '#1b2126' : '#ffffff'; },
  };
}

/* what is drawn again when the window or the theme changes */
const redraws = [];
export const drawn = f => { redraws.push(f); f(); };
export const redraw = () => redraws.forEach(f => f());
let width = innerWidth;
addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
matchMedia('(prefers-color-scheme:dark)').addEventListener('change', redraw);
export function themeButton() {
  const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme:dark)').matches;
  return h('button', { type: 'button', onclick: () => { root.dataset.theme = dark() ? 'light' : 'dark'; redraw(); } }, 'Light / dark');
}

const tip = h('div', { class: 'tip', 'aria-hidden': 'true' });
document.body.append(tip);
export function show(e, text) {
  tip.textContent = text;
  const at = e.clientX === undefined || (e.clientX === 0 && e.clientY === 0) ? e.target.getBoundingClientRect() : null;
  const x = at ? at.right : e.clientX, y = at ? at.top : e.clientY;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + 'px';
  tip.style.visibility = 'visible';
}
export const hide = () => { tip.style.visibility = 'hidden'; };
addEventListener('keydown', e => { if (e.key === 'Escape') hide(); });

export function pick(label, names, now, on) {
  const all = names.map(n => h('button', { type: 'button', 'aria-pressed': String(n === now), onclick: () => { all.forEach(b => b.setAttribute('aria-pressed', String(b === all[names.indexOf(n)]))); on(n); } }, n));
  return h('span', { class: 'tools', role: 'group', 'aria-label': label || names.join(' or ') }, label ? h('span', {}, label) : null, all);
}
export function choose(label, options, now, on) {
  const s = h('select', { 'aria-label': label, onchange: () => on(s.value) }, options.map(([v, text]) => h('option', { value: v, selected: v === now }, text)));
  return h('label', { class: 'tools' }, h('span', {}, label), s);
}
export const key = (a, b) => h('span', { class: 'key' }, a, h('i'), b);
let blocks = 0;
export function section(title, tools, note, ...kids) {
  const id = 'part-' + (++blocks);
  return h('section', { 'aria-labelledby': id }, h('div', { class: 'bar' }, h('h2', { id }, title), tools), h('div', { class: 'card' }, kids), note ? h('p', { class: 'note' }, note) : null);
}
export const head = (kind, title, ...more) => h('header', {}, h('div', {}, h('p', { class: 'kind' }, kind), h('h1', {}, title), more), themeButton());
/* links to the sections, for a page that is long */
export function jump() {
  const all = [...document.querySelectorAll('section>.bar>h2')];
  return h('nav', { class: 'jump', 'aria-label': 'Parts of this page' }, all.map(t => h('a', { href: '#' + t.id }, t.textContent)));
}
export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    const area = h('textarea', { readonly: true, 'aria-label': 'text to copy' }), d = h('dialog', {}, h('p', {}, 'Copy this text:'), area, h('p', {}, h('button', { type: 'button', onclick: () => d.close() }, 'Close')));
    area.value = text;
    document.body.append(d);
    d.addEventListener('close', () => d.remove());
    d.showModal();
    area.select();
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}
export const ready = () => { document.body.dataset.ready = '1'; };
