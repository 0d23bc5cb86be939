/* SPDX-License-Identifier: Apache-2.0 */
/* Charts drawn by Chart.js. Colours are Okabe and Ito's, each with a shape or place of its own. */
'use strict';

const nspyCharts = (() => {
  const COLORS = ['#0072b2', '#d55e00', '#009e73', '#e69f00', '#cc79a7', '#56b4e9', '#999999'];
  const POINTS = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'cross', 'crossRot'];

  function plot(figure, config) {
    const box = document.createElement('div');
    const canvas = document.createElement('canvas');
    box.className = 'plot';
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${figure.dataset.label}. The table below has the numbers.`);
    box.append(canvas);
    figure.append(box);
    figure.hidden = false;
    config.options = Object.assign({ responsive: true, maintainAspectRatio: false, animation: false },
      config.options);
    return new Chart(canvas, config);
  }

  function bytes(value) {
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let unit = 0;
    for (; value >= 1000 && unit < units.length - 1; unit++) {
      value /= 1000;
    }
    return `${Number(value.toPrecision(3))} ${units[unit]}`;
  }

  const title = (text) => ({ display: true, text });

  function theme(chart) {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue('--ink').trim(), line = style.getPropertyValue('--line').trim();
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks = Object.assign(scale.ticks ?? {}, { color: ink });
      scale.grid = Object.assign(scale.grid ?? {}, { color: line });
      scale.title = Object.assign(scale.title ?? {}, { color: ink });
    }
    chart.options.plugins.legend.labels = { color: ink };
    chart.update('none');
  }

  function parts(figure, data) {
    const chart = plot(figure, {
      type: 'bar',
      data: {
        labels: data.rows,
        datasets: data.part_names.map((label, k) => ({
          label, backgroundColor: COLORS[k], data: data.parts.map((row) => row[k]),
          barPercentage: 1, categoryPercentage: data.rows.length > 64 ? 1 : 0.9,
        })),
      },
      options: {
        interaction: { mode: 'index', intersect: false },
        scales: {
          x: { stacked: true, ticks: { maxRotation: 60, maxTicksLimit: 24,
            callback(value) { return this.getLabelForValue(value).split(',')[0]; } } },
          y: { stacked: true, title: title('seconds of a rank') },
        },
        plugins: { legend: { position: 'bottom' } },
      },
    });
    return () => theme(chart);
  }

  function bandwidth(figure, data) {
    const groups = new Map();
    for (const one of data.bandwidth) {
      const name = `${one.function}, ${one.shape}, ${one.ranks} ranks` +
        (one.stream_seen_empty ? '' : ', stream may hold more');
      groups.set(name, [...(groups.get(name) ?? []),
        { x: one.size_from, y: one.busbw_at_least.median }]);
    }
    const chart = plot(figure, {
      type: 'line',
      data: {
        datasets: Array.from(groups, ([label, points], k) => ({
          label, data: points.sort((a, b) => a.x - b.x), pointRadius: 5,
          borderColor: COLORS[k % COLORS.length], backgroundColor: COLORS[k % COLORS.length],
          pointStyle: POINTS[k % POINTS.length],
        })),
      },
      options: {
        scales: {
          x: { type: 'logarithmic', title: title('size'), ticks: { callback: bytes, maxTicksLimit: 12 } },
          y: { beginAtZero: true, title: title('bus bandwidth at least'),
            ticks: { callback: (value) => `${bytes(value)}/s` } },
        },
        plugins: { legend: { position: 'bottom' } },
      },
    });
    return () => theme(chart);
  }

  /* A bar from the median to the 99th percentile of each run; base and new differ in edge too. */
  function distributions(figure, data) {
    const select = document.createElement('select');
    const label = document.createElement('label');
    for (const [i, group] of data.distributions.entries()) {
      select.append(new Option(group.name, i));
    }
    label.className = 'tools';
    label.append('quantity ', select);
    figure.append(label);
    const chart = plot(figure, {
      type: 'bar',
      data: { labels: [], datasets: [] },
      options: {
        indexAxis: 'y',
        scales: { x: { beginAtZero: false, title: title('median to 99th percentile, seconds') }, y: {} },
        plugins: { legend: { position: 'bottom' } },
      },
    });
    const show = () => {
      const runs = data.distributions[Number(select.value)].runs;
      chart.data.labels = runs.map((run) => `${run[0] ? 'new' : 'base'}: ${run[1]}`);
      chart.data.datasets = [0, 1].map((side) => ({
        label: side ? 'new' : 'base', backgroundColor: COLORS[side], borderColor: COLORS[side],
        borderWidth: 2, grouped: false, minBarLength: 3,
        data: runs.map((run) => (run[0] === side ? [run[2], run[4]] : null)),
      }));
      chart.update('none');
    };
    select.addEventListener('change', show);
    show();
    return () => theme(chart);
  }

  return { parts, bandwidth, distributions };
})();
