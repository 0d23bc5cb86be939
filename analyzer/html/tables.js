/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting and filtering of the tables that stand in the page. */
'use strict';

const nspyTables = (() => {
  const value = (cell) => {
    const text = cell.dataset.v ?? cell.textContent;
    return text === '-' || text === '' ? NaN : Number(text);
  };

  /* What has no value comes last in either direction. */
  function compare(a, b, numeric, sign) {
    if (!numeric) {
      return sign * a.textContent.localeCompare(b.textContent, 'en', { numeric: true });
    }
    const x = value(a), y = value(b);
    if (Number.isNaN(x) || Number.isNaN(y)) {
      return Number.isNaN(x) - Number.isNaN(y);
    }
    return sign * (x - y);
  }

  function sort(table, header) {
    const up = header.getAttribute('aria-sort') === 'descending' ||
      (!header.hasAttribute('aria-sort') && !header.classList.contains('n'));
    const numeric = header.classList.contains('n');
    const column = header.cellIndex;
    for (const other of header.parentNode.cells) {
      other.removeAttribute('aria-sort');
    }
    header.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => compare(a.cells[column], b.cells[column], numeric, up ? 1 : -1));
    table.tBodies[0].append(...rows);
  }

  function makeSortable(table) {
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = header.textContent;
      button.addEventListener('click', () => sort(table, header));
      header.replaceChildren(button);
    }
  }

  function filter(table, text, status) {
    const wanted = text.trim().toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const content = Array.from(row.cells, (cell) => cell.textContent).join(' ').toLowerCase();
      row.hidden = !wanted.every((word) => content.includes(word));
      shown += !row.hidden;
    }
    status.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
  }

  function makeFilter(table) {
    const box = document.createElement('div');
    const label = document.createElement('label');
    const input = document.createElement('input');
    const status = document.createElement('span');
    box.className = 'filter';
    input.type = 'search';
    status.setAttribute('role', 'status');
    label.append('filter ', input);
    input.setAttribute('aria-label', `filter: ${table.caption.textContent}`);
    input.addEventListener('input', () => filter(table, input.value, status));
    box.append(label, status);
    table.parentNode.before(box);
  }

  return {
    start() {
      for (const table of document.querySelectorAll('table')) {
        const count = table.tBodies[0].rows.length;
        if (count > 1) {
          makeSortable(table);
        }
        if (count > 8) {
          makeFilter(table);
        }
        if (count === 0) {
          const none = document.createElement('p');
          none.className = 'note';
          none.textContent = `${table.caption.textContent}: none`;
          table.parentNode.replaceWith(none);
        } else {
          table.parentNode.tabIndex = 0; /* so that the keyboard can scroll it */
          table.parentNode.setAttribute('role', 'region');
          table.parentNode.setAttribute('aria-label', table.caption.textContent);
        }
      }
    },
  };
})();
