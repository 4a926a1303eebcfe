/* Tables that sort, filter and can be copied. */
import { h, copy } from './dom.js';

/* columns: {name, label, value(row), cell(row), text(row), lower: true | false | null, words}; rows: anything */
export function dataTable(columns, rows, { by = null, up = true, caption = '', group = null } = {}) {
  let keep = () => true;
  const table = h('table');
  const visible = () => {
    const found = rows.filter(r => keep(r));
    if (by === null) return found;
    const value = columns[by].value, last = up ? Infinity : -Infinity;
    return [...found].sort((a, b) => {
      const x = value(a) ?? last, y = value(b) ?? last;
      const n = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true });
      return up ? n : -n;
    });
  };
  const draw = () => {
    const now = visible();
    const best = columns.map(c => {
      if (c.lower === null || c.lower === undefined) return null;
      const v = now.map(c.value).filter(x => typeof x === 'number');
      return v.length < 2 ? null : c.lower ? Math.min(...v) : Math.max(...v);
    });
    const first = document.activeElement && table.contains(document.activeElement) ? document.activeElement.dataset.column : null;
    table.replaceChildren(...[
      caption ? h('caption', {}, caption) : null,
      h('thead', {}, h('tr', {}, columns.map((c, i) => h('th', { scope: 'col', class: c.label ? 'name' : c.words ? 'words' : null, 'aria-sort': i === by ? (up ? 'ascending' : 'descending') : 'none' },
        h('button', { type: 'button', 'data-column': c.name, title: c.title, onclick: () => { up = i === by ? !up : c.lower !== false; by = i; draw(); } }, c.name))))),
      h('tbody', {}, now.map((r, n) => h('tr', { class: group && n && group(r) !== group(now[n - 1]) && by === null ? 'group' : null }, columns.map((c, i) => {
        const kind = [c.label ? 'name' : c.words ? 'words' : '', best[i] !== null && c.value(r) === best[i] ? 'best' : ''].filter(Boolean).join(' ');
        return h(c.label && i === 0 ? 'th' : 'td', { class: kind || null, scope: c.label && i === 0 ? 'row' : null, 'data-metric': c.metric }, c.cell(r));
      }))))].filter(Boolean));
    if (first) [...table.querySelectorAll('thead button')].find(b => b.dataset.column === first)?.focus();
  };
  draw();
  const text = c => r => c.text ? c.text(r) : String(c.value(r) ?? '');
  const quote = t => /[",\n]/.test(t) ? '"' + t.replaceAll('"', '""') + '"' : t;
  return {
    element: h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption || 'table' }, table),
    filter: f => { keep = f; draw(); },
    refresh: more => { rows = more; draw(); },
    csv: () => [columns.map(c => quote(c.plain || c.name)).join(','), ...visible().map(r => columns.map(c => quote(c.csv ? c.csv(r) : text(c)(r))).join(','))].join('\n') + '\n',
    latex: () => {
      const body = visible();
      const safe = { '&': '\\&', '%': '\\%', '$': '\\$', '#': '\\#', '_': '\\_', '{': '\\{', '}': '\\}', '~': '\\textasciitilde{}', '^': '\\textasciicircum{}', '\\': '\\textbackslash{}', '±': '$\\pm$', '<': '$<$', '>': '$>$', 'ε': '$\\varepsilon$' };
      const tex = t => t.replace(/[&%$#_{}~^\\±<>ε]/g, c => safe[c]);
      const line = cells => cells.map(tex).join(' & ') + ' \\\\';
      return ['% \\usepackage{booktabs}', `\\begin{tabular}{${columns.map(c => c.label || c.words ? 'l' : 'r').join('')}}`, '\\toprule', line(columns.map(c => c.name)), '\\midrule', ...body.map(r => line(columns.map(c => text(c)(r)))), '\\bottomrule', '\\end{tabular}', ''].join('\n');
    },
  };
}

export const copiers = t => [['Copy CSV', t.csv], ['Copy LaTeX', t.latex]].map(([label, make]) => {
  const b = h('button', { type: 'button', onclick: () => copy(make(), b) }, label);
  return b;
});
