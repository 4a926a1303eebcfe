/* One peer, as its own site sees it. */
import { h, main, DATA, fix, size, span, drawn, section, head, jump, ready } from './dom.js';
import { dataTable } from './table.js';
import { lines } from './charts.js';
import { watch, actor, ago } from './acting.js';

let now = DATA.now, gone = false, ended = false;
const actions = actor(DATA.can), sentence = h('p', { class: 'lead', 'aria-live': 'polite', id: 'sentence' }), tiles = h('div', { class: 'tiles' }), banner = h('div'), curve = h('div'), aboutError = h('p', { class: 'note' }), box = name => h('div', { id: name });
const parts = { neighbours: box('neighbours'), privacy: box('privacy'), refused: box('refused'), aside: box('aside'), letters: box('letters'), certificates: box('certificates'), log: box('log') };
const tile = (big, small, kind) => h('div', { class: 'tile' }, h('b', { class: kind || null }, big), h('span', {}, small));
const clock = t => t ? t.replace('T', ' ').slice(0, 19) : '–';
const none = text => h('p', { class: 'note' }, text);
const days = end => end ? Math.floor((Date.parse(end) - Date.now()) / 86400000) : null;
/* Wilson's interval of a share of n rows */
const wilson = (p, n) => { const z = 1.96, c = (p + z * z / (2 * n)) / (1 + z * z / n), w = z / (1 + z * z / n) * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)); return `${fix(Math.max(0, c - w), 2)} to ${fix(Math.min(1, c + w), 2)}`; };
const dayWords = d => d === null ? '–' : d < 0 ? h('span', { class: 'state bad' }, 'over') : d < 30 ? h('span', { class: 'state warn' }, `${d} days`) : `${d} days`;
const tables = {};
function table(name, columns, rows, empty) {
  if (!rows.length) { parts[name].replaceChildren(none(empty)); delete tables[name]; return; }
  if (tables[name]) { tables[name].refresh(rows); return; }
  tables[name] = dataTable(columns, rows, { caption: '' });
  parts[name].replaceChildren(tables[name].element);
}
const plain = (name, key, more = {}) => ({ name, value: r => r[key], cell: r => r[key] ?? '–', ...more });

function waitingWords() {
  const at = Date.now();
  return (now.waiting || []).filter(n => !(now.neighbours.find(x => x.name === n) || {}).ejected).map(n => `${n} since ${span(ago(now.waits_since[n] || now.changed, at))}`);
}
function drawSentence() {
  if (!now.begun) { sentence.textContent = now.sentence; return; }
  const waits = now.running && !now.done && !ended ? waitingWords() : [], slow = Math.max(2, 5 * (now.pace || 0)), late = waits.length && ago(now.changed, Date.now()) > slow;
  const word = ended ? (now.done ? 'done' : 'ended') : late ? 'waits' : now.word, kind = ended && !now.done ? 'bad' : late ? 'warn' : now.kind;
  sentence.replaceChildren(h('span', { class: 'state ' + kind, id: 'word' }, word), ' ', now.done ? `All ${now.rounds} rounds are done.` : `Round ${now.round} of ${now.rounds}. `, ended && !now.done ? 'The process of the peer has ended; the same command goes on from here.' : late ? `Waiting for ${waits.join(', ')}.` : now.sentence && !now.done ? now.sentence : '');
}
function draw() {
  drawSentence();
  if (!now.begun) return;
  const error = now.errors.at(-1), own = !now.held_out, p = now.privacy, sent = now.neighbours.reduce((a, n) => a + n.bytes, 0), soon = Math.min(...now.certificates.map(c => c.days));
  tiles.replaceChildren(tile(`${now.round} / ${now.rounds}`, 'rounds'), own ? tile('not known', 'error on held-out rows: none are held out (--held-out)', 'quiet') : tile(error ? fix(error[1]) : '–', `error on ${now.held_out} held-out rows of this site` + (error ? ` (95 %: ${wilson(error[1], now.held_out)})` : '')),
    tile(now.pace ? span(now.pace) : '–', 'a round, of late'), tile(size(sent), 'have left this site'), p ? tile(`${fix(p.spent, 2)} / ${fix(p.epsilon, 2)}`, `privacy budget ε spent, for one ${p.unit}`) : tile('exact', 'letters carry no noise'),
    now.certificates.length ? tile(`${soon} days`, 'until a certificate ends', soon < 30 ? 'warn' : null) : null);
  lines(curve, [{ name: now.node, colour: own ? 7 : 0, dash: own ? 2 : 0, x: now.errors.map(e => e[0]), y: now.errors.map(e => e[1]) }], { unit: own ? 'error on rows that it learns from' : 'error on held-out rows', label: 'round', from: 0, end: now.rounds, height: 280 });
  aboutError.textContent = own ? 'This is training error: it says nothing about new rows. Hold rows out with --held-out 0.2 to see how good the model is for this site.' : `${now.held_out} rows of this site that the model never learns from.`;
  const at = Date.now();
  table('neighbours', [{ name: 'neighbour', label: true, value: r => r.name, cell: r => r.name },
    { name: 'state', words: true, value: r => neighbourState(r)[0], cell: r => { const [word, kind] = neighbourState(r); return h('span', { class: 'state ' + kind }, word); } },
    { name: 'last heard', value: r => ago(r.heard, at), cell: r => r.heard ? span(ago(r.heard, Date.now())) + ' ago' : 'never' }, { name: 'its round', value: r => r.head, cell: r => r.head ?? '–' }, { name: 'missed', title: 'of the last 200 rounds', value: r => r.missed, cell: r => r.missed },
    { name: 'letters taken', value: r => r.taken, cell: r => `${r.taken} / ${r.letters}` }, { name: 'bytes', value: r => r.bytes, cell: r => size(r.bytes) }, { name: 'its certificate', value: r => days(r.ends), cell: r => dayWords(days(r.ends)) },
    ...(DATA.can ? [{ name: 'act', value: () => 0, cell: r => actions.known() ? (r.ejected ? h('button', { type: 'button', onclick: () => actions.act({ do: 'readmit', neighbour: r.name }) }, 'Readmit') : h('button', { type: 'button', class: 'act', onclick: () => actions.act({ do: 'eject', neighbour: r.name }, `Neither hear nor tell ${r.name} anything?`) }, 'Eject')) : '–' }] : [])], now.neighbours, 'This peer has no neighbours.');
  if (p) {
    const used = h('progress', { max: p.epsilon, value: p.spent, 'aria-label': 'privacy budget spent' });
    if (!tables.privacy) { tables.privacy = dataTable([plain('receipt', 'receipt'), plain('time', 'time', { cell: r => clock(r.time) }), plain('mechanism', 'mechanism', { words: true }), plain('ε', 'epsilon', { title: `for one ${p.unit}`, cell: r => fix(r.epsilon, 4) }), plain('δ', 'delta', { cell: r => r.delta ? r.delta.toExponential(1) : '0' }), plain('about', 'about', { words: true })], p.releases, { caption: '' }); } else tables.privacy.refresh(p.releases);
    parts.privacy.replaceChildren(h('p', {}, `ε ${fix(p.spent, 4)} of ${fix(p.epsilon, 4)} is spent, ${fix(p.left, 4)} is left, for one ${p.unit} (δ ${p.delta}, ${p.accountant} accounting), in ${p.count} release${p.count === 1 ? '' : 's'}.`), used, tables.privacy.element);
  } else parts.privacy.replaceChildren(none('No privacy budget was agreed on: letters are exact. A neighbour that keeps them can work out this site’s updates.'));
  table('certificates', [{ name: 'of', label: true, value: r => r.what, cell: r => r.what }, plain('ends', 'ends', { cell: r => clock(r.ends) }), { name: 'left', value: r => r.days, cell: r => dayWords(r.days) }], now.certificates, 'The folder of keys is not known here.');
  table('refused', [plain('time', 'time', { label: true, cell: r => clock(r.time) }), plain('caller', 'caller', { words: true }), plain('address', 'address', { words: true }), plain('why', 'why', { words: true })], now.refused, 'Nobody was refused.');
  table('aside', [plain('number', 'id', { label: true }), plain('from', 'from', { words: true }), plain('round', 'round'), plain('bytes', 'bytes', { cell: r => size(r.bytes) }), plain('since', 'time', { cell: r => clock(r.time) }), plain('why', 'why', { words: true })], now.quarantine, 'No letter is in quarantine.');
  table('letters', [plain('to', 'to', { label: true }), plain('round', 'round'), plain('bytes', 'bytes', { cell: r => size(r.bytes) }), plain('made', 'made', { cell: r => clock(r.made) }), { name: 'taken', value: r => r.taken, words: true, cell: r => r.taken === null ? h('span', { class: 'state warn' }, 'not yet') : /^\d/.test(r.taken) ? clock(r.taken) : h('span', { class: 'quiet' }, r.taken || 'not sent') }, plain('sha256', 'sha256', { words: true, cell: r => r.sha256.slice(0, 16) + '…' })], now.letters, 'No letter was made yet.');
  holds.textContent = now.holds;
  table('log', [plain('time', 'time', { label: true, cell: r => clock(r.time) }), plain('event', 'event', { words: true }), plain('', 'facts', { words: true })], now.log, 'Nothing out of the ordinary.');
  stopButton.hidden = !actions.known() || ended || now.done;
}
function neighbourState(r) {
  if (r.ejected) return ['ejected', 'bad'];
  if (now.done) return ['done', 'good'];
  const silent = ago(r.heard, Date.now()), waited = now.running && (now.waiting || []).includes(r.name) && ago(now.waits_since[r.name] || now.changed, Date.now()) > Math.max(2, 5 * (now.pace || 0));
  if (r.heard === null) return ['not heard yet', 'quiet'];
  return waited ? [`silent ${span(silent)}`, 'bad'] : ['heard', 'good'];
}
const holds = h('p', { class: 'note' }), stopButton = h('button', { type: 'button', class: 'act', hidden: true, onclick: () => actions.act({ do: 'stop' }, 'Stop this peer? What it learnt is kept.') }, 'Stop this peer');
main.replaceChildren(head(now.begun ? `Peerwise · ${now.federation} · ${now.method} · charter ${now.charter.slice(0, 12)}…` : 'Peerwise', now.node || 'peer', sentence, actions.element, stopButton), banner, tiles,
  section('Neighbours', null, 'Silent: this round waits for its letter. Missed: of the last 200 rounds.', parts.neighbours), h('section', {}, h('div', { class: 'bar' }, h('h2', { id: 'part-error' }, 'Is it good for this site?')), h('div', { class: 'card' }, curve), aboutError),
  section('What left this site', null, 'The newest letters. No number of a letter is shown here: `peerwise peer outbox` shows them to whoever may read the state.', holds, parts.letters), section('Privacy', null, 'Every release with its cost. What was drawn once is never drawn again.', parts.privacy),
  section('Quarantine', null, 'Letters that were put aside; rounds go on without them.', parts.aside), section('Refused callers', null, null, parts.refused), section('Certificates', null, 'Renew with `peerwise network cert NODE --renew`.', parts.certificates), section('Log', null, 'The last events, without rounds that went as they should.', parts.log));
main.querySelector('header').after(jump());
actions.changed(draw);
drawn(draw);
setInterval(() => { if (!gone && !ended) { drawSentence(); if (tables.neighbours && now.begun) tables.neighbours.refresh(now.neighbours); } }, 1000);
ready();
watch(next => { if (next.wrong) { banner.replaceChildren(h('p', { class: 'banner', role: 'alert' }, next.wrong)); return; } const first = !now.begun && next.begun; now = next; if (first) location.reload(); draw(); },
  lost => { if (lost === gone) return; gone = lost; banner.replaceChildren(...(lost ? [h('p', { class: 'banner', role: 'alert' }, 'No answer from the peer: its process has ended, or this machine cannot reach it. The page goes on when it answers.')] : [])); },
  () => { ended = true; draw(); });
