/* Watching something that goes on, and telling it what to do with the token. */
import { h } from './dom.js';

/* events of the server; `on` is given the whole state, `lost(true)` says that nobody answers */
export function watch(on, lost, ended) {
  const events = new EventSource('/events');
  let over = false;
  events.onmessage = e => { lost(false); on(JSON.parse(e.data)); };
  events.onopen = () => lost(false);
  events.onerror = () => { if (!over) lost(true); };
  events.addEventListener('end', () => { over = true; events.close(); ended(); });
}

/* a field for the token, and `act`, which asks the server to do something */
export function actor(can) {
  const said = h('span', { role: 'status', class: 'note' }), field = h('input', { type: 'password', autocomplete: 'off', placeholder: 'token', 'aria-label': 'token' });
  let known = false;
  const listeners = [];
  const post = async (path, body) => { const r = await fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }); let told = {}; try { told = await r.json(); } catch { told = { said: r.statusText }; } return { ok: r.ok, said: told.said || '' }; };
  const enter = async () => { const r = await post('/login', { token: field.value }); known = r.ok; field.value = ''; said.textContent = r.ok ? 'You can act now.' : r.said; field.hidden = r.ok; button.hidden = r.ok; listeners.forEach(f => f()); };
  const button = h('button', { type: 'submit' }, 'Act with the token');
  return {
    element: can ? h('form', { class: 'tools', id: 'acting', onsubmit: e => { e.preventDefault(); enter(); } }, field, button, said) : h('p', { class: 'note', id: 'acting' }, 'This page only shows. Start it with --page-token-file to stop, eject and readmit from here.'),
    known: () => known,
    changed: f => listeners.push(f),
    async act(body, question) { if (question && !confirm(question)) return; const r = await post('/act', body); said.textContent = r.said; },
  };
}

export const ago = (time, now) => time ? Math.max(0, (now - Date.parse(time)) / 1000) : null;
