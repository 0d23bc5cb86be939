/* SPDX-License-Identifier: Apache-2.0 */
/* Heat maps: lateness of ranks over time, bytes from node to node. One pixel of data a cell. */
'use strict';

const nspyHeat = (() => {
  /* From little to much; lightness alone tells them apart, so any colour vision does. */
  const LIGHT = [[229, 231, 226], [198, 212, 226], [140, 170, 205], [80, 122, 174], [32, 78, 138],
    [0, 34, 78]];
  const DARK = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115],
    [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];

  function color(share, dark) {
    const ramp = dark ? DARK : LIGHT;
    const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
    const low = Math.min(Math.floor(at), ramp.length - 2);
    return ramp[low].map((from, i) => from + (ramp[low + 1][i] - from) * (at - low));
  }

  function bytesOf(base64) {
    const text = atob(base64);
    return Uint8Array.from(text, (c) => c.charCodeAt(0));
  }

  function seconds(value) {
    const [factor, unit] = value >= 1 ? [1, 's'] : value >= 1e-3 ? [1e3, 'ms'] : [1e6, 'us'];
    return `${Number((value * factor).toPrecision(3))} ${unit}`;
  }

  const lagOf = (level) => (2 ** ((level - 1) / 8) - 1) / 1e6;
  const levelOf = (lag) => 1 + 8 * Math.log2(1 + lag * 1e6);

  function bytesText(level) {
    let value = (2 ** ((level - 1) / 4) - 1) * 1024;
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let unit = 0;
    for (; value >= 1024 && unit < units.length - 1; unit++) {
      value /= 1024;
    }
    return `about ${Number(value.toPrecision(2))} ${units[unit]}`;
  }

  function element(name, attributes) {
    return Object.assign(document.createElement(name), attributes);
  }

  /*
   * map: rows, columns, at(row, column) = level, from and to = levels of the ramp's ends, text(row,
   * column), square. Levels below from are drawn like from; 0 is left open.
   */
  function paint(canvas, map, dark) {
    const context = canvas.getContext('2d');
    const image = new ImageData(map.columns, map.rows);
    for (let row = 0; row < map.rows; row++) {
      for (let column = 0; column < map.columns; column++) {
        const level = map.at(row, column);
        const at = 4 * (row * map.columns + column);
        if (level > 0) {
          image.data.set(color((level - map.from) / (map.to - map.from || 1), dark), at);
          image.data[at + 3] = 255;
        }
      }
    }
    const small = new OffscreenCanvas(map.columns, map.rows);
    small.getContext('2d').putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    if (map.cursor) {
      const w = canvas.width / map.columns, h = canvas.height / map.rows;
      context.strokeStyle = dark ? '#fff' : '#d55e00';
      context.lineWidth = 2;
      context.strokeRect(map.cursor[1] * w - 1, map.cursor[0] * h - 1, w + 2, h + 2);
    }
  }

  function legend(map, isDark) {
    const canvas = element('canvas', { width: 100, height: 1, className: 'legend' });
    const draw = () => {
      const context = canvas.getContext('2d');
      for (let i = 0; i < 100; i++) {
        context.fillStyle = `rgb(${color(i / 99, isDark()).map(Math.round).join(',')})`;
        context.fillRect(i, 0, 1, 1);
      }
    };
    const box = element('span', {});
    canvas.setAttribute('aria-hidden', 'true');
    box.append(map.low, ' ', canvas, ' ', map.high);
    box.className = 'tools';
    return [box, draw];
  }

  function build(figure, map, isDark, tools) {
    const canvas = element('canvas', { className: map.square ? 'heat square' : 'heat', tabIndex: 0 });
    const output = element('output', {});
    const [ramp, drawRamp] = legend(map, isDark);
    const line = Math.max(1, Math.min(24, Math.floor(480 / map.rows)));
    canvas.width = map.square ? 576 : 1280;
    canvas.height = map.square ? 576 : Math.max(map.rows * line, 96);
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${figure.dataset.label}. Arrow keys move through the cells.`);
    const draw = () => {
      paint(canvas, map, isDark());
      drawRamp();
    };
    const show = (row, column) => {
      map.cursor = [row, column];
      output.textContent = map.text(row, column);
      draw();
    };
    canvas.addEventListener('pointermove', (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.floor((event.clientY - box.top) / box.height * map.rows);
      const column = Math.floor((event.clientX - box.left) / box.width * map.columns);
      show(Math.min(Math.max(row, 0), map.rows - 1), Math.min(Math.max(column, 0), map.columns - 1));
    });
    canvas.addEventListener('keydown', (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) {
        return;
      }
      const [row, column] = map.cursor ?? [0, 0];
      event.preventDefault();
      show(Math.min(Math.max(row + step[0], 0), map.rows - 1),
        Math.min(Math.max(column + step[1], 0), map.columns - 1));
    });
    output.textContent = map.hint;
    const bar = element('div', { className: 'tools' });
    bar.append(...tools, ramp);
    figure.append(bar, canvas, output);
    figure.hidden = false;
    draw();
    return draw;
  }

  function lag(figure, data, isDark) {
    const levels = bytesOf(data.lag.levels);
    const columns = data.lag.columns;
    const count = data.rows.length;
    const high = levels.reduce((a, b) => Math.max(a, b), 2);
    /* Differences that the clocks may have made look like none. */
    const low = Math.min(Math.max(levelOf(data.lag.error_s ?? 0), 1), high - 1);
    const byRank = Array.from({ length: count }, (_, i) => i);
    const byCost = byRank.slice().sort((a, b) => data.charged[b] - data.charged[a] || a - b);
    let order = byRank;
    const select = element('select', {});
    select.append(new Option(data.worst ? 'costliest ranks, then groups' : 'by rank', 'rank'),
      new Option('by what they cost others', 'cost'));
    const label = element('label', {});
    label.append('rows ', select);
    const map = {
      rows: count, columns, from: low, to: high,
      low: data.lag.error_s ? `up to ${seconds(data.lag.error_s)} (clocks)` : '0', high: seconds(lagOf(high)),
      hint: 'Point at a cell, or use the arrow keys. Empty: no collective begun.',
      at: (row, column) => levels[order[row] * columns + column],
      text(row, column) {
        const level = map.at(row, column);
        const from = column * data.lag.column_s, to = from + data.lag.column_s;
        return `${data.rows[order[row]]}, ${from.toFixed(2)} to ${to.toFixed(2)} s: ` +
          (level ? `up to ${seconds(lagOf(level))} late` : 'no collective begun') +
          `; cost others ${seconds(data.charged[order[row]])} in all`;
      },
    };
    const draw = build(figure, map, isDark, [label]);
    select.addEventListener('change', () => {
      order = select.value === 'cost' ? byCost : byRank;
      map.cursor = undefined;
      draw();
    });
    return draw;
  }

  function pairs(figure, data, isDark) {
    const levels = bytesOf(data.pairs.levels);
    const names = data.pairs.nodes;
    const high = levels.reduce((a, b) => Math.max(a, b), 2);
    const low = levels.reduce((a, b) => (b && b < a ? b : a), high);
    const map = {
      rows: names.length, columns: names.length, square: true, from: low, to: high,
      low: bytesText(low), high: bytesText(high),
      hint: 'Rows send, columns receive. Point at a cell, or use the arrow keys.',
      at: (row, column) => levels[row * names.length + column],
      text: (row, column) => `${names[row]} \u2192 ${names[column]}: ` +
        (map.at(row, column) ? bytesText(map.at(row, column)) : 'nothing'),
    };
    return build(figure, map, isDark, []);
  }

  return { lag, pairs, seconds };
})();
