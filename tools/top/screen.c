/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain ANSI, as every terminal since the VT100 understands it: terminfo is missing in the small
 * images that jobs run in. One write a picture, so nothing flickers.
 */
#include "top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

static struct termios before;
static volatile sig_atomic_t ended;

static void on_end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

/* Only there to end poll early. */
static void on_resize(int signal_number)
{
	(void)signal_number;
}

static void put(const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(STDOUT_FILENO, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		bytes -= (size_t)n;
	}
}

static bool begin(void)
{
	struct termios raw;
	struct sigaction end = {.sa_handler = on_end}, resize = {.sa_handler = on_resize};

	if (tcgetattr(STDIN_FILENO, &before) != 0)
		return false;
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	sigaction(SIGWINCH, &resize, NULL);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
		return false;
	put(ENTER, sizeof(ENTER) - 1);
	return true;
}

static void leave(void)
{
	put(LEAVE, sizeof(LEAVE) - 1);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void draw(const struct top_lines *lines, bool color, unsigned int rows, unsigned int columns)
{
	static const char *const styles[] = {"", "\033[1m", "\033[31m", "\033[33m", "\033[2m"};
	size_t count = lines->count < rows ? lines->count : rows;
	size_t room = 64 + count * (columns + 32u), n = 0;
	char *out = malloc(room);

	if (!out)
		return;
	n += (size_t)snprintf(out, room, "\033[H");
	for (size_t i = 0; i < count; i++) {
		const struct top_line *line = &lines->at[i];
		const char *style = color ? styles[line->style] : "";

		n += (size_t)snprintf(out + n, room - n, "%s%.*s%s\033[K%s", style, (int)columns,
				      line->text, style[0] ? "\033[0m" : "",
				      i + 1 < count ? "\r\n" : "");
	}
	n += (size_t)snprintf(out + n, room - n, "\033[J");
	put(out, n);
	free(out);
}

/* false: to be left. */
static bool take_keys(enum top_sort *sort)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if (n == 0) /* readable, and nothing there: the terminal is gone */
		return false;
	for (ssize_t i = 0; i < n; i++) {
		if (keys[i] == 'q' || keys[i] == 'Q')
			return false;
		if (keys[i] == 's')
			*sort = (enum top_sort)((*sort + 1) % TOP_SORTS);
	}
	return true;
}

int top_screen(struct top_snapshot *snap, unsigned int period_ms)
{
	const char *plain = getenv("NO_COLOR");
	enum top_sort sort = TOP_SORT_WORST;
	struct top_lines lines = {0};
	bool on = true;
	int rc = 0;

	if (!begin())
		return 2;
	while (on && !ended && rc == 0) {
		struct pollfd keyboard = {.fd = STDIN_FILENO, .events = POLLIN};
		struct winsize size = {.ws_row = 24, .ws_col = 80};

		(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
		if (!size.ws_row || !size.ws_col)
			size = (struct winsize){.ws_row = 24, .ws_col = 80};
		rc = top_look(snap);
		top_sort(snap, sort);
		if (rc == 0)
			rc = top_text(snap, sort, size.ws_row, &lines);
		if (rc == 0)
			draw(&lines, !plain || !plain[0], size.ws_row, size.ws_col);
		if (rc == 0 && poll(&keyboard, 1, (int)period_ms) > 0)
			on = take_keys(&sort);
	}
	leave();
	free(lines.at);
	return rc == 0 ? 0 : 4;
}
