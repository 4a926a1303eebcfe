/* Pages that ask for the token, or say what is wrong. */
import { h, main, DATA, head, ready } from './dom.js';

if (DATA && DATA.wrong) main.replaceChildren(head('Peerwise', 'This cannot be shown', h('p', { class: 'banner', role: 'alert' }, DATA.wrong)));
else {
  const field = h('input', { type: 'password', autocomplete: 'off', 'aria-label': 'token' }), said = h('p', { class: 'note', role: 'status' });
  const go = async () => {
    const answer = await fetch('/login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token: field.value }) });
    if (answer.ok) location.reload(); else said.textContent = (await answer.json()).said;
  };
  main.replaceChildren(head('Peerwise', 'This page needs its token', h('p', { class: 'lead' }, 'Whoever started it knows the token.'), h('form', { class: 'tools', onsubmit: e => { e.preventDefault(); go(); } }, field, h('button', { type: 'submit' }, 'Show the page')), said));
}
ready();
