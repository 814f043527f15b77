'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const panel = document.getElementById('evidence');
const form = document.getElementById('filter');

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

// All that is known of one export: what each release says of it, then why it has its class.
function show(row) {
  const name = row.dataset.name;
  const close = element('button', 'close');
  close.addEventListener('click', () => { panel.hidden = true; });
  const list = element('ul');
  for (const cell of row.querySelectorAll('td.cell[data-reason]')) {
    const line = element('li', `${cell.dataset.of}: ${cell.dataset.node ? `${name}@${cell.dataset.node}` : name} is `);
    line.append(element('b', cell.dataset.label), `: ${data.reasons[cell.dataset.reason]}`);
    list.append(line);
  }
  const why = element('ul');
  for (const item of (data.evidence[row.dataset.family] || {})[name] || []) {
    why.append(element('li', `${item.kind}: ${item.says} (${item.at})`));
  }
  panel.replaceChildren(close, element('h2', `${name} (${row.dataset.class || 'no class'})`), list, element('p', why.children.length ? 'Evidence' : 'No manifest has evidence for this export.'), why);
  panel.hidden = false;
}

function filter() {
  const { kind, label, must, text } = form.elements;
  let shown = 0;
  for (const row of document.querySelectorAll('.matrix tbody tr')) {
    const fits = (!kind.value || row.dataset.class === kind.value) && (!label.value || row.dataset.labels.split(' ').includes(label.value))
      && (!must.checked || row.dataset.must === '1') && row.dataset.name.toLowerCase().includes(text.value.toLowerCase());
    row.hidden = !fits;
    shown += fits;
  }
  document.getElementById('shown').textContent = `${shown} shown`;
}

if (form) {
  form.hidden = false;
  form.addEventListener('input', filter);
  form.addEventListener('submit', event => event.preventDefault());
  document.addEventListener('click', event => {
    const cell = event.target.closest('.matrix td.cell, .matrix th button');
    if (cell) show(cell.closest('tr'));
  });
  document.addEventListener('keydown', event => { if (event.key === 'Escape') panel.hidden = true; });
  filter();
}
