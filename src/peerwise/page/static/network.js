/* All peers of this machine: the graph alive. */
import { h, main, DATA, fix, size, span, drawn, pick, section, head, ready } from './dom.js';
import { dataTable } from './table.js';
import { lines } from './charts.js';
import { network } from './pictures.js';
import { watch, actor, ago } from './acting.js';

let now = DATA.now, gone = false, ended = false, log = false;
const actions = actor(DATA.can), sentence = h('p', { class: 'lead', 'aria-live': 'polite', id: 'sentence' }), banner = h('div'), net = h('div'), curve = h('div', { id: 'curves' }), holder = h('div', { id: 'peers' }), tiles = h('div', { class: 'tiles' });
const names = DATA.names, FILL = { good: 'var(--good)', bad: 'var(--bad)', warn: 'var(--warn)', quiet: 'var(--faint)' };
const tile = (big, small, kind) => h('div', { class: 'tile' }, h('b', { class: kind || null }, big), h('span', {}, small));
const standing = p => p.done ? ['done', 'good'] : p.word === 'learns' && p.running ? (isLate(p) ? ['waits', 'warn'] : ['learns', 'good']) : [p.word, p.kind];
const isLate = p => ((p.waiting || []).length && ago(p.changed, Date.now()) > Math.max(3, 5 * (p.pace || 0))) || (p.waiting || []).some(n => now.peers[n] && !now.peers[n].done && ['down', 'stopped', 'stuck'].includes(now.peers[n].word));
const say = i => { const p = now.peers[names[i]], e = now.errors[names[i]].at(-1); return `${names[i]}: ${standing(p)[0]}` + (p.begun ? `\nround ${p.round} of ${p.rounds}` + (e ? `\ntest error ${fix(e[1])}` : '') + (!p.done && p.running && p.waiting.length ? `\nno letter yet of ${p.waiting.join(', ')}` : '') : ''); };
const neighboursOf = name => DATA.network.edges.filter(e => e.includes(names.indexOf(name))).map(e => names[e[0] === names.indexOf(name) ? e[1] : e[0]]);
const ejector = r => { const pick = h('select', { 'aria-label': `neighbour that ${r.name} ejects`, onchange: () => { if (pick.value) actions.act({ do: 'eject', peer: r.name, neighbour: pick.value }, `Shall ${r.name} neither hear nor tell ${pick.value} anything?`); pick.value = ''; } }, h('option', { value: '' }, 'Eject…'), neighboursOf(r.name).filter(n => !(r.ejected || []).includes(n)).map(n => h('option', { value: n }, n))); return pick; };
let picture = null, table = null;
function draw() {
  sentence.textContent = ended ? 'The peers have ended: all that is shown is how they were at the end.' : now.sentence;
  const all = names.map(n => now.peers[n]), rounds = all.filter(p => p.begun), last = names.map(n => now.errors[n].at(-1)?.[1]).filter(v => v !== undefined), down = all.filter(p => ['down', 'stopped', 'stuck'].includes(p.word)).length;
  tiles.replaceChildren(tile(rounds.length ? `${Math.min(...rounds.map(p => p.round))} / ${rounds[0].rounds}` : '–', 'rounds, the slowest peer'), tile(last.length ? fix(last.reduce((a, b) => a + b, 0) / last.length) : '–', 'test error, mean of peers'), tile(last.length ? fix(Math.max(...last)) : '–', 'test error, worst peer'), tile(String(down), 'peers that do not run', down ? 'bad' : null), tile(size(rounds.reduce((a, p) => a + (p.bytes || 0), 0)), 'in letters'));
  if (!picture) picture = network(net, DATA.network, names.map((_, i) => i), { names, say });
  if (picture.circles) {
    names.forEach((n, i) => { const c = picture.circles.get(i); c.setAttribute('fill', FILL[standing(now.peers[n])[1]]); c.setAttribute('data-state', standing(now.peers[n])[0]); });
    picture.svg.setAttribute('aria-label', `The network: ${names.length} peers, ${DATA.network.links} links. ` + names.map(n => `${n} ${standing(now.peers[n])[0]}`).join(', '));
    picture.svg.querySelectorAll('[data-link]').forEach(l => { const [a, b] = l.dataset.link.split('-').map(i => now.peers[names[i]]), [x, y] = l.dataset.link.split('-').map(i => names[i]); const cut = (a.ejected || []).includes(y) || (b.ejected || []).includes(x), bad = cut || [a, b].some(p => !p.done && ['down', 'stopped', 'stuck'].includes(p.word)); l.setAttribute('class', 'edge ' + (bad ? 'silent' : a.begun && b.begun ? 'alive' : '')); });
  }
  const series = names.map((n, i) => ({ name: n, colour: i % 10, dash: Math.floor(i / 10) % 4, x: now.errors[n].map(e => e[0]), y: now.errors[n].map(e => e[1]) })).filter(s => s.x.length);
  if (series.length) lines(curve, series, { log, unit: 'test error', label: 'round', from: 0, end: rounds.length ? rounds[0].rounds : null, height: 420 }); else curve.replaceChildren(h('p', { class: 'note' }, 'The first models are looked at in a moment.'));
  const rows = names.map(n => ({ name: n, ...now.peers[n], error: now.errors[n].at(-1)?.[1] ?? null }));
  if (table) { if (!(document.activeElement && document.activeElement.tagName === 'SELECT')) table.refresh(rows); } else {
    table = dataTable([{ name: 'peer', label: true, value: r => r.name, cell: r => r.name }, { name: 'state', words: true, value: r => standing(r)[0], cell: r => h('span', { class: 'state ' + standing(r)[1] }, standing(r)[0]) }, { name: 'round', value: r => r.round ?? -1, cell: r => r.begun ? `${r.round} / ${r.rounds}` : '–' }, { name: 'test error', value: r => r.error, cell: r => fix(r.error) },
      { name: 'waits for', words: true, value: r => (r.waiting || []).join(), cell: r => r.begun && r.running && !r.done ? r.waiting.join(', ') || '–' : '–' }, { name: 'a round', value: r => r.pace, cell: r => span(r.pace) }, { name: 'sent', value: r => r.bytes, cell: r => size(r.bytes) },
      ...(DATA.can ? [{ name: 'act', value: () => 0, cell: r => !actions.known() ? '–' : h('span', { class: 'tools' }, r.running ? (r.done ? null : h('button', { type: 'button', class: 'act', onclick: () => actions.act({ do: 'stop', peer: r.name }) }, 'Stop')) : r.done ? null : h('button', { type: 'button', onclick: () => actions.act({ do: 'start', peer: r.name }) }, 'Start'),
        neighboursOf(r.name).filter(n => (r.ejected || []).includes(n)).map(n => h('button', { type: 'button', onclick: () => actions.act({ do: 'readmit', peer: r.name, neighbour: n }) }, `Readmit ${n}`)),
        r.begun && !r.done ? ejector(r) : null) }] : [])], rows, { caption: '' });
    holder.replaceChildren(table.element);
  }
}
main.replaceChildren(head(`Peerwise · ${DATA.method} · peers of this machine`, DATA.title, sentence, actions.element), banner, tiles, h('div', { class: 'two' }, section('The network', null, 'Every circle is a process with its own rows. Green: it learns or is done; orange: it waits; red: it does not run. A broken red line: no letters go along it.', net),
  section('Test error of the peers’ models', pick('scale', ['linear', 'log'], 'linear', v => { log = v === 'log'; draw(); }), 'On rows that nobody trained on, looked at beside the peers now and then: peers themselves never see these rows.', curve)), section('Peers', null, null, holder));
actions.changed(draw);
drawn(draw);
ready();
setInterval(() => { if (!gone && !ended) draw(); }, 2000);
watch(next => { if (next.wrong) { sentence.textContent = next.wrong; return; } now = next; draw(); },
  lost => { if (lost === gone) return; gone = lost; banner.replaceChildren(...(lost ? [h('p', { class: 'banner', role: 'alert' }, 'No answer: the command that serves this page has ended.')] : [])); },
  () => { ended = true; draw(); });
