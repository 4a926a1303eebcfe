/* A run that goes on: lines that grow, the network as it learns, then the finished page. */
import { h, main, DATA, fix, span, drawn, pick, choose, key, section, head, ready } from './dom.js';
import { lines } from './charts.js';
import { network, ranked } from './pictures.js';

const WORDS = { waits: ['waits', 'quiet'], learns: ['learns', 'warn'], done: ['done', 'good'] };
let now = DATA.now, log = true, shown = 0, by = true;
const title = h('span', { class: 'said', 'aria-live': 'polite' }), bar = h('progress', { max: 1, value: 0, 'aria-label': 'how much is done' }), curves = h('div', { id: 'curves' }), cells = h('tbody'), net = h('div'), bars = h('div'), said = h('span', { class: 'said' }), scaleKey = h('span');
let picture = null, choice = h('span');

const fraction = s => s.state === 'done' ? 1 : s.state === 'learns' ? ((s.part[0] + s.round / Math.max(s.of, 1)) / s.part[1]) : 0;
function draw() {
  const series = now.series.map((s, i) => ({ name: s.name, colour: i % 10, dash: Math.floor(i / 10) % 4, x: s.x, y: s.mean, lo: s.lo, hi: s.hi })).filter(s => s.x.length);
  if (series.length) lines(curves, series, { log, unit: 'test error', label: 'round', from: 0, end: Math.max(...now.series.map(s => s.of)) });
  else curves.replaceChildren(h('p', { class: 'note' }, 'Compiling: the first rounds come in a moment.'));
  const [done, total] = now.cells, learning = now.series.filter(s => s.state === 'learns');
  title.textContent = `${done} of ${total} cells done` + (learning.length ? `; ${learning.map(s => `${s.name} in round ${s.round} of ${s.of}`).slice(0, 3).join(', ')}` : '') + `; ${span(now.seconds)}`;
  bar.value = Math.max(done / Math.max(total, 1), now.series.reduce((a, s) => a + fraction(s), 0) / Math.max(now.series.length, 1));
  cells.replaceChildren(...now.series.map((s, i) => h('tr', {}, h('th', { class: 'name', scope: 'row' }, h('span', { class: `chip k${i % 10}`, 'aria-hidden': 'true' }), s.name), h('td', { class: 'name' }, h('span', { class: 'state ' + WORDS[s.state][1] }, WORDS[s.state][0])), h('td', {}, `${s.round} / ${s.of}`), h('td', {}, fix(s.mean.at(-1))))));
  drawNet();
}
function drawNet() {
  if (!DATA.network) return;
  const able = now.series.filter(s => s.nodes.length === DATA.network.nodes);
  if (!able.length) return;
  const active = by ? (able.filter(s => s.state === 'learns').at(-1) || able.at(-1)) : now.series[shown], v = active.nodes;
  if (v.length !== DATA.network.nodes) return;
  if (!picture) picture = network(net, DATA.network, v.map((_, i) => i));
  const fine = v.filter(x => x !== null), hi = Math.log(Math.max(...fine, .9)), lo = Math.log(.01), scale = x => (Math.log(Math.max(x, .01)) - lo) / (hi - lo);
  picture.paint(v, scale);
  ranked(bars, v.map((_, i) => i), v, scale, { on: id => picture.mark(id) });
  said.textContent = `${active.name}, round ${active.round}: mean ${fix(fine.reduce((a, b) => a + b, 0) / fine.length)}, worst ${fix(Math.max(...fine))}`;
  scaleKey.replaceChildren(key('0.010', fix(Math.exp(hi))));
}
main.replaceChildren(head('Peerwise · learning now', DATA.title, h('p', {}, title), bar, h('p', { class: 'note' }, `When it ends, the page in ${DATA.folder}/report.html has all of it.`)));
main.append(section('How it learns', pick('scale', ['log', 'linear'], 'log', v => { log = v === 'log'; draw(); }), 'Lines: mean over nodes and repetitions. Bands: four of five nodes.', curves));
if (DATA.network) main.append(section('The network', now.series.length > 1 ? choose('method', [['', 'the one that learns'], ...now.series.map((s, i) => [String(i), s.name])], '', v => { by = v === ''; shown = +v; drawNet(); }) : null, 'First repetition, as it is now.', h('div', { class: 'bar' }, said, scaleKey), h('div', { class: 'two' }, net, bars)));
main.append(section('Cells', null, null, h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'cells' }, h('table', {}, h('thead', {}, h('tr', {}, ['cell', 'state', 'round', 'test error'].map((t, i) => h('th', { scope: 'col', class: i < 2 ? 'name' : null }, t)))), cells))));
drawn(draw);
ready();
const events = new EventSource('/events');
events.onmessage = e => { now = JSON.parse(e.data); if (now.wrong) title.textContent = now.wrong; else draw(); };
events.addEventListener('end', () => { events.close(); location.reload(); });
events.onerror = () => { if (events.readyState === EventSource.CLOSED) title.textContent += ' (the run has ended, or its connection is lost)'; };
