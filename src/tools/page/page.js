// SPDX-License-Identifier: MIT
// page.js - what the page can do beyond standing there: say what a cell or a span is, walk over them by arrow keys, and move the
// window of a grid over its tile. Sets data-script="ready" on the root when it is through, data-error when something failed.
'use strict';
(function () {
    const root = document.documentElement, said = document.getElementById('said');
    window.addEventListener('error', e => { root.dataset.error = e.message; });

    // ---- saying what something is
    let current = null;
    function show(cell) {
        if (current) current.classList.remove('on');
        current = cell;
        if (cell) cell.classList.add('on');
        const title = cell && cell.querySelector('title');
        said.hidden = !title;
        said.textContent = title ? title.textContent : '';
    }
    const cellOf = target => target.closest && target.closest('svg g');
    document.addEventListener('pointerover', e => { if (cellOf(e.target)) show(cellOf(e.target)); });
    document.addEventListener('pointerout', e => { if (cellOf(e.target)) show(null); });

    // ---- walking: the nearest in the direction of the key, those straight ahead first
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    function neighbour(cells, from, [dx, dy]) {
        const a = from.getBoundingClientRect();
        let best = null, least = Infinity;
        for (const cell of cells) {
            if (cell === from) continue;
            const b = cell.getBoundingClientRect();
            const along = dx ? (b.left - a.left) * dx : (b.top - a.top) * dy;
            const aside = dx ? Math.abs(b.top - a.top) : Math.abs(b.left - a.left);
            if (along < 1) continue;
            const far = along + 1000 * (dx ? aside : 0) + (dx ? 0 : aside);
            if (far < least) { least = far; best = cell; }
        }
        return best;
    }
    for (const box of document.querySelectorAll('.scroll[tabindex]')) {
        box.addEventListener('keydown', e => {
            const cells = [...box.querySelectorAll('svg g')];
            if (!ways[e.key] || !cells.length) return;
            const next = cells.includes(current) ? neighbour(cells, current, ways[e.key]) : cells[0];
            e.preventDefault();
            if (!next) return;
            show(next);
            next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
        });
        box.addEventListener('focus', () => { const first = box.querySelector('svg g'); if (first) show(first); });
        box.addEventListener('blur', () => show(null));
    }

    // ---- layouts, computed as src/layout does
    const numbers = text => text.split(' ').map(Number);
    function fragment(data) {
        const extent = numbers(data.extent), modes = [[], [], [], []], columns = Number(data.columns);
        for (const mode of data.modes ? data.modes.split(',').map(numbers) : []) modes[mode[0]].push(mode.slice(1));
        const count = input => modes[input].reduce((n, mode) => n * mode[0], 1);
        const holders = [];
        const spread = (input, value, at) => {
            for (const [n, dim, stride] of modes[input]) {
                if (dim >= 0) at[dim] += value % n * stride;
                value = Math.floor(value / n);
            }
        };
        for (let group = 0; group < count(3); group++)
            for (let warp = 0; warp < count(2); warp++)
                for (let lane = 0; lane < count(1); lane++)
                    for (let reg = 0; reg < count(0); reg++) {
                        const at = extent.map(() => 0);
                        [reg, lane, warp, group].forEach((value, input) => spread(input, value, at));
                        if (at.some((x, d) => x >= extent[d])) continue;
                        let row = 0;
                        for (let d = 0; d + 1 < extent.length; d++) row = row * extent[d] + at[d];
                        const place = row * (extent.length > 1 ? columns : 0) + at[extent.length - 1];
                        if (holders[place]) holders[place].count++;
                        else holders[place] = { reg, lane, warp, group, count: 1 };
                    }
        return holders;
    }
    function indices(extent, row, column) {
        const index = [];
        for (let d = extent.length - 2; d >= 0; d--) { index.unshift(row % extent[d]); row = Math.floor(row / extent[d]); }
        return 'element ' + index.concat(column).map(i => '[' + i + ']').join('');
    }
    function fragmentCell(data, holders, row, column) {
        const extent = numbers(data.extent), bits = Number(data.bits), place = row * Number(data.columns) + column, h = holders[place];
        if (!h) return null;
        const bit = h.reg * bits, name = extent.length < 2 ? 'element ' + place : indices(extent, row, column);
        return { colour: 'l' + h.lane, above: 't' + (h.warp * 32 + h.lane), below: '' + h.reg,
            title: name + ': lane ' + h.lane + ', warp ' + h.warp + ', group ' + h.group + ', value ' + h.reg + ' (register ' +
                Math.floor(bit / 32) + (bits < 32 ? ', bits ' + bit % 32 + ' to ' + (bit % 32 + bits - 1) : '') + ')' +
                (h.count > 1 ? '; ' + h.count + ' threads hold it' : '') };
    }
    function sharedCell(data, row, piece) {
        const [bytes, panel, pitch, swizzle, panelBytes] = numbers(data.shared), column = piece * 16 / bytes;
        let offset = row * pitch + column % panel * bytes;
        if (swizzle) offset ^= (offset >> 7 & (swizzle / 16 - 1)) << 4;
        offset += Math.floor(column / panel) * panelBytes;
        const bank = Math.floor(offset / 4) % 32, extent = numbers(data.extent), next = Math.min(16 / bytes, extent[extent.length - 1] - column) - 1;
        return { colour: 'b' + Math.floor(offset / 16) % 8, above: '@' + offset, below: 'b' + bank,
            title: (extent.length < 2 ? 'element ' + column : indices(extent, row, column)) + ' and the next ' + next +
                ': byte ' + offset + ', banks ' + bank + ' to ' + (bank + 3) % 32 };
    }
    const cellAt = (data, holders, row, column) => data.shared ? sharedCell(data, row, column) : fragmentCell(data, holders, row, column);

    // ---- a window that moves over its tile
    function prepare(figure) {
        const data = figure.dataset, svg = figure.querySelector('svg.layout'), text = figure.querySelector('.window');
        const cells = [...svg.querySelectorAll('g')], labels = [...svg.querySelectorAll('text.k')];
        const place = cells.map(cell => /translate\((\d+) (\d+)\)/.exec(cell.getAttribute('transform')).slice(1).map(Number));
        const xs = [...new Set(place.map(p => p[0]))], ys = [...new Set(place.map(p => p[1]))];
        let holders = null, top = 0, left = 0;
        const words = text.textContent;
        const wanted = (i, row, column) => cellAt(data, holders, row + ys.indexOf(place[i][1]), column + xs.indexOf(place[i][0]));
        function use() { if (!holders && !data.shared) holders = fragment(data); }
        function draw() {
            use();
            cells.forEach((cell, i) => {
                const w = wanted(i, top, left), texts = cell.querySelectorAll('text');
                cell.style.visibility = w ? 'visible' : 'hidden';
                if (!w) return;
                cell.setAttribute('class', w.colour);
                cell.querySelector('title').textContent = w.title;
                texts[0].textContent = w.above;
                texts[1].textContent = w.below;
            });
            const vector = !data.shared && !data.extent.includes(' '), scale = data.shared ? 16 / numbers(data.shared)[0] : 1;
            labels.forEach((label, i) => {
                label.textContent = i < xs.length ? (vector ? '+' : '') + (left + i) * scale : (top + i - xs.length) * (vector ? Number(data.columns) : 1);
            });
            text.firstChild.textContent = words.replace(/\d+ to \d+/, top + ' to ' + (top + ys.length - 1))
                .replace(/columns \d+ to \d+/, 'columns ' + left + ' to ' + (left + xs.length - 1)) + ' ';
        }
        function move(down, right) {
            top = Math.max(0, Math.min(Number(data.rows) - ys.length, top + down * ys.length));
            left = Math.max(0, Math.min(Number(data.columns) - xs.length, left + right * xs.length));
            draw();
        }
        for (const [name, sign, down, right] of [['rows before', '\u2191', -1, 0], ['rows after', '\u2193', 1, 0],
            ['columns before', '\u2190', 0, -1], ['columns after', '\u2192', 0, 1]]) {
            if (down ? ys.length >= Number(data.rows) : xs.length >= Number(data.columns)) continue;
            const button = document.createElement('button');
            button.type = 'button';
            button.textContent = sign;
            button.setAttribute('aria-label', name);
            button.addEventListener('click', () => move(down, right));
            text.append(button);
        }
        // What this script computes is what was drawn.
        figure.check = () => {
            use();
            cells.forEach((cell, i) => {
                const w = wanted(i, 0, 0);
                if (!w || w.title !== cell.querySelector('title').textContent || w.colour !== cell.getAttribute('class'))
                    throw new Error(figure.id + ': cell ' + i + ' should be ' + (w && w.title));
            });
            move(1, 1);
            move(-1, -1);
        };
    }
    const figures = [...document.querySelectorAll('figure.grid')];
    try {
        figures.forEach(prepare);
        if (location.hash === '#check') figures.forEach(figure => figure.check());
        root.dataset.wide = Math.max(0, root.scrollWidth - root.clientWidth);
        root.dataset.script = 'ready';
    } catch (e) {
        root.dataset.error = e.message;
    }
})();
