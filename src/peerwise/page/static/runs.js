/* A folder of runs. */
import { h, main, DATA, fix, head, section, ready } from './dom.js';
import { dataTable, copiers } from './table.js';

const KIND = { finished: 'good', unfinished: 'warn', damaged: 'bad' };
const t = dataTable([
  { name: 'run', label: true, value: r => r.name, cell: r => r.state === 'finished' ? h('a', { href: '/run/' + encodeURIComponent(r.name) }, r.name) : r.name },
  { name: 'what', words: true, value: r => r.title, cell: r => [r.title, r.why ? [h('br'), h('small', {}, r.why)] : null] },
  { name: 'state', words: true, value: r => r.state, cell: r => h('span', { class: 'state ' + KIND[r.state] }, r.state) },
  { name: 'least test error', value: r => r.error, cell: r => fix(r.error) },
  { name: 'of', label: true, value: r => r.best, cell: r => r.best || '–' },
  { name: 'written', value: r => r.made, cell: r => r.made },
], DATA.runs, { by: 5, up: false, caption: '' });
main.replaceChildren(head('Peerwise · runs', DATA.folder, h('p', { class: 'lead' }, `${DATA.runs.length} run${DATA.runs.length === 1 ? '' : 's'}.`)), section('Runs', h('span', { class: 'tools' }, copiers(t)), 'Newest first. Reload the page to look again.', DATA.runs.length ? t.element : h('p', { class: 'note' }, 'There is no run in this folder: `peerwise run FILE` makes one in runs/.')));
ready();
