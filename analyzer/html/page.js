/* SPDX-License-Identifier: Apache-2.0 */
/* Starts everything: what the page says does not depend on it. */
'use strict';

(() => {
  const root = document.documentElement;
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : system.matches);
  const redraws = [];
  const redraw = () => redraws.forEach((draw) => draw());

  function makeToggle() {
    const button = document.createElement('button');
    const name = () => {
      button.textContent = isDark() ? 'light colours' : 'dark colours';
    };
    button.type = 'button';
    button.id = 'theme';
    button.addEventListener('click', () => {
      root.dataset.theme = isDark() ? 'light' : 'dark';
      name();
      redraw();
    });
    system.addEventListener('change', () => {
      name();
      redraw();
    });
    name();
    document.getElementById('bar').append(button);
  }

  function makeNavigation(article) {
    for (const section of article.querySelectorAll('section')) {
      const link = document.createElement('a');
      link.href = `#${section.id}`;
      link.textContent = section.querySelector('h2').textContent;
      article.querySelector('nav').append(link);
    }
  }

  function makeCharts(article, data) {
    for (const figure of article.querySelectorAll('figure[data-chart]')) {
      const kind = figure.dataset.chart;
      const make = nspyHeat[kind] ?? (typeof Chart === 'undefined' ? undefined : nspyCharts[kind]);
      const given = { lag: data.lag, parts: data.parts, pairs: data.pairs, bandwidth: data.bandwidth,
        distributions: data.distributions?.length }[kind];
      if (make && given) {
        const draw = make(figure, data, isDark);
        redraws.push(draw);
        draw();
      }
    }
  }

  const data = JSON.parse(document.getElementById('data').textContent);
  makeToggle();
  nspyTables.start();
  document.querySelectorAll('article').forEach((article, i) => {
    makeNavigation(article);
    makeCharts(article, data.sections[i]);
  });
  window.addEventListener('beforeprint', () => {
    document.querySelectorAll('details').forEach((details) => {
      details.open = !details.classList.contains('reference') || details.open;
    });
  });
  root.dataset.ready = 'yes';
})();
