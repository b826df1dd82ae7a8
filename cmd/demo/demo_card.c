/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/demo/demo_card.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/demo/demo_parts.h"
#include "rio/names.h"
#include "roles/key_file.h"

enum {
	PAGE_BYTES = 1 << 20,
	PIECE = 4096,
	HTTP_PORT = 8080,
	LINES_SHOWN = 16,
	END_S = 5,
	NAMESPACE_PATH = 64
};

enum place { UNIT, LAN, HOST, PLACES };

static const char page_head[] = "HTTP/1.0 200 OK\r\n\r\n";
static const char card_mark[] = "; card: ";

struct demo {
	struct demo_folder folder;
	char capture[DEMO_PATH];
	char keys[2][RIO_KEY_DIGITS + 1]; /* public: of the unit, of the host */
	int spaces[PLACES];		  /* network namespaces */
	struct demo_child unit, host;
	pid_t server;
	bool has_colour;
};

__attribute__((format(printf, 3, 4))) static bool say(const struct demo *d, bool is_good,
						      const char *format, ...)
{
	const char *colour = is_good ? "\033[32m" : "\033[31m";
	va_list args;

	printf("%s%s%s  ", d->has_colour ? colour : "", is_good ? "ok" : "no",
	       d->has_colour ? "\033[0m" : "");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return is_good;
}

/* ---- Namespaces ----------------------------------------------------------------------------- */

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return is_good;
}

/* All that follows is in a user namespace, whose root this user is. */
static bool become_root(void)
{
	unsigned int user = geteuid(), group = getegid();
	char map[NAMESPACE_PATH];

	if (unshare(CLONE_NEWUSER) != 0)
		return false;
	(void)put_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", user);
	if (!put_text("/proc/self/uid_map", map))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", group);
	return put_text("/proc/self/gid_map", map);
}

static bool enter(const struct demo *d, enum place place)
{
	return setns(d->spaces[place], CLONE_NEWNET) == 0;
}

static bool ip(const char *command)
{
	char words[DEMO_LINE], *args[DEMO_ARGS + 1] = { NULL }, *rest = words;
	int count = 0;

	snprintf(words, sizeof(words), "ip %s", command);
	while (count < DEMO_ARGS && (args[count] = strsep(&rest, " ")) != NULL)
		count++;
	return demo_run_other(args) == 0;
}

/* A cable from the unit to another place; both ends are up. */
static bool cable(const struct demo *d, const char *here, const char *there, enum place place)
{
	char command[DEMO_LINE];

	snprintf(command, sizeof(command), "link add %s type veth peer name %s", here, there);
	if (!enter(d, UNIT) || !ip(command))
		return false;
	snprintf(command, sizeof(command), "link set %s netns /proc/%ld/fd/%d", there,
		 (long)getpid(), d->spaces[place]);
	if (!ip(command))
		return false;
	snprintf(command, sizeof(command), "link set %s up", here);
	if (!ip(command) || !enter(d, place))
		return false;
	snprintf(command, sizeof(command), "link set %s up", there);
	return ip(command);
}

static bool make_networks(struct demo *d)
{
	if (!become_root() && geteuid() != 0)
		return say(d, false, "this user may make no namespaces: %s", strerror(errno));
	for (int i = 0; i < PLACES; i++) {
		if (unshare(CLONE_NEWNET) != 0 || !ip("link set lo up"))
			return say(d, false, "no network namespace can be made here");
		d->spaces[i] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (d->spaces[i] < 0)
			return say(d, false, "%s", strerror(errno));
	}
	if (!cable(d, "lan0", "srv0", LAN) || !ip("addr add 192.0.2.1/24 dev srv0") ||
	    !cable(d, "wire0", "wire1", HOST) || !ip("addr add 198.51.100.1/31 dev wire1") ||
	    !enter(d, UNIT) || !ip("addr add 198.51.100.0/31 dev wire0"))
		return say(d, false, "the networks cannot be made");
	return say(d, true,
		   "three network namespaces: a LAN with a server, 192.0.2.1; an I/O unit with a "
		   "card on it; a host, which has a wire to the unit only");
}

/* ---- The two ends --------------------------------------------------------------------------- */

static bool make_files(struct demo *d)
{
	static const char *const names[2] = { "unit.key", "host.key" };
	char text[2 * DEMO_LINE], path[DEMO_PATH], why[KEY_FILE_WHY];

	for (int i = 0; i < 2; i++) {
		uint8_t key[RIO_KEY_BYTES];

		demo_folder_path(&d->folder, names[i], path);
		if (!key_file_make(path, key, why))
			return say(d, false, "%s", why);
		rio_key_write(key, d->keys[i]);
	}
	snprintf(text, sizeof(text), "role card-unit\nlan packet:lan0\nhost host 3.1 %s\n",
		 d->keys[1]);
	if (!demo_folder_write(&d->folder, "unit.conf", text))
		return say(d, false, "%s", strerror(errno));
	snprintf(text, sizeof(text),
		 "role card-host\ncard tap:card0\nunit unit 2.1 %s 198.51.100.0:7480\n",
		 d->keys[0]);
	if (!demo_folder_write(&d->folder, "host.conf", text))
		return say(d, false, "%s", strerror(errno));
	demo_folder_path(&d->folder, "host.pcapng", d->capture);
	return true;
}

static bool start_end(struct demo *d, enum place place, struct demo_child *c, const char *text)
{
	const char *verb = place == UNIT ? "unit" : "host";
	char path[DEMO_PATH + 16], line[DEMO_LINE];

	snprintf(path, sizeof(path), "%s/%s.conf", d->folder.path, verb);
	if (!enter(d, place) ||
	    !demo_start(c, (const char *const[DEMO_ARGS]){ "card", verb, path, NULL }))
		return say(d, false, "%s", strerror(errno));
	if (demo_await_line(c, text, line))
		return say(d, true, "weft card %s: %s", verb, line);
	demo_complaint(c, line);
	return say(d, false, "weft card %s: %s", verb, line);
}

static bool start_card(struct demo *d)
{
	bool is_good = start_end(d, UNIT, &d->unit, " card unit ");

	setenv("WEFT_PCAP", d->capture, 1);
	is_good = is_good && start_end(d, HOST, &d->host, " is connected");
	unsetenv("WEFT_PCAP");
	return is_good && ip("addr add 192.0.2.2/24 dev card0") && ip("link set card0 up") &&
	       say(d, true, "the host's interface card0 is up, with the address 192.0.2.2");
}

/* ---- A page --------------------------------------------------------------------------------- */

static int socket_at(bool is_server)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(HTTP_PORT) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, "192.0.2.1", &at.sin_addr);
	if (fd < 0)
		return -1;
	if (is_server
		    ? bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 4) == 0
		    : connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void serve_one(int fd)
{
	uint8_t piece[PIECE];

	(void)!read(fd, piece, sizeof(piece));
	(void)!write(fd, page_head, sizeof(page_head) - 1);
	for (uint64_t at = 0; at < PAGE_BYTES; at += PIECE) {
		demo_pattern(at, piece, PIECE);
		if (write(fd, piece, PIECE) != PIECE)
			return;
	}
}

/* The server, a process that ends with this one. */
static bool start_server(struct demo *d)
{
	int listener = enter(d, LAN) ? socket_at(true) : -1;

	if (listener < 0)
		return say(d, false, "the server cannot listen: %s", strerror(errno));
	d->server = demo_fork();
	while (d->server == 0) {
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0) {
			serve_one(fd);
			close(fd);
		}
	}
	close(listener);
	return d->server > 0;
}

/* Bytes that are as they should be. */
static uint64_t page_read(int fd)
{
	uint8_t head[sizeof(page_head) - 1], piece[PIECE], wanted[PIECE];
	uint64_t good = 0;
	ssize_t n;

	if (write(fd, "GET / HTTP/1.0\r\n\r\n", 18) != 18 ||
	    recv(fd, head, sizeof(head), MSG_WAITALL) != (ssize_t)sizeof(head))
		return 0;
	while ((n = recv(fd, piece, sizeof(piece), MSG_WAITALL)) > 0) {
		demo_pattern(good, wanted, (size_t)n);
		if (memcmp(piece, wanted, (size_t)n) != 0)
			break;
		good += (uint64_t)n;
	}
	return good;
}

static bool fetch(struct demo *d)
{
	const struct timeval patience = { .tv_sec = END_S };
	int fd = enter(d, HOST) ? socket_at(false) : -1;
	uint64_t good;

	if (fd < 0)
		return say(d, false, "the server cannot be reached: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	good = page_read(fd);
	close(fd);
	return say(d, good == PAGE_BYTES,
		   "a page of %d bytes came by HTTP, %" PRIu64 " of them as they were sent",
		   PAGE_BYTES, good);
}

static bool ping(struct demo *d)
{
	enum { NO_PROGRAM = 127 };
	char *args[] = { (char *)"ping", (char *)"-c",	      (char *)"3", (char *)"-i",
			 (char *)"0.2",	 (char *)"192.0.2.1", NULL };
	int status = enter(d, HOST) ? demo_run_other(args) : 1;

	if (status == NO_PROGRAM)
		return say(d, true, "without ping on this machine, that is left out");
	return say(d, status == 0, "the server answers the host's pings");
}

/* ---- The trace ------------------------------------------------------------------------------ */

/* Seconds, direction, words: without what the wire adds. */
static void show(const char *line, const char *words)
{
	const char *way = strchr(line + strspn(line, " "), ' ');

	if (way)
		printf("    %.*s  %s  %s\n", (int)(way - line), line,
		       strncmp(way + strspn(way, " "), "198.51.100.1 ", 13) == 0 ? "host > unit"
										 : "unit > host",
		       words);
}

static bool trace(struct demo *d)
{
	uint32_t pushes[2] = { 0 }, asked = 0, shown = 0, first_push = 0;
	struct demo_child dump;
	char line[DEMO_LINE];

	if (!demo_start(&dump, (const char *const[DEMO_ARGS]){ "dump", d->capture, NULL }))
		return say(d, false, "%s", strerror(errno));
	printf("\nwhat crossed the wire, as weft dump tells the host's capture:\n\n");
	while (demo_await_line(&dump, "", line)) {
		const char *words = strstr(line, card_mark);

		if (!words)
			continue;
		words += sizeof(card_mark) - 1;
		first_push += strstr(words, "pushes ") == words;
		if (first_push <= LINES_SHOWN && shown++ < 2 * LINES_SHOWN)
			show(line, words);
		asked += strstr(words, "BufferPull") == words;
		pushes[strstr(line, "  198.51.100.1 >") != NULL] += strstr(words, "pushes ") ==
								    words;
	}
	(void)demo_end(&dump, 0, END_S);
	printf("    ...\n\n");
	return say(d, pushes[0] > 0 && pushes[1] > 0 && asked == 0,
		   "%u packets were pushed to the host, %u to the unit, a Write each; no end "
		   "asked for one",
		   pushes[0], pushes[1]);
}

/* ---- The demonstration ---------------------------------------------------------------------- */

static bool stop_card(struct demo *d)
{
	return say(d,
		   demo_end(&d->host, SIGTERM, END_S) == 0 &&
			   demo_end(&d->unit, SIGTERM, END_S) == 0,
		   "host and unit ended in order");
}

static bool play(struct demo *d)
{
	if (!demo_folder_make(&d->folder))
		return say(d, false, "%s", strerror(errno));
	return make_networks(d) && make_files(d) && start_server(d) && start_card(d) && ping(d) &&
	       fetch(d) && stop_card(d) && trace(d);
}

int demo_card(void)
{
	static const struct demo_child no_child = { .in = -1, .out = -1, .err = -1 };
	const char *no_color = getenv("NO_COLOR");
	struct demo d = { .spaces = { -1, -1, -1 }, .unit = no_child, .host = no_child };
	bool is_good;

	d.has_colour = isatty(STDOUT_FILENO) && (!no_color || no_color[0] == '\0');
	demo_signals_take();
	is_good = play(&d);
	(void)demo_end(&d.host, SIGTERM, END_S);
	(void)demo_end(&d.unit, SIGTERM, END_S);
	if (d.server > 0)
		demo_kill(d.server);
	demo_folder_remove(&d.folder);
	return is_good ? 0 : 1;
}
