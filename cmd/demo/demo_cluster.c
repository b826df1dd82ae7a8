/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/demo/demo_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/clock.h"
#include "cmd/demo/demo_parts.h"
#include "cmd/roles/cluster_view.h"
#include "cmd/roles/rio_role.h"
#include "rio/names.h"
#include "roles/key_file.h"

enum {
	CHUNK = 256 << 10,
	SEEN_MAX = 32,
	REFUSED_BYTES = 1 << 20,
	DRAW_MS = 150,
	STILL_S = 30, /* nothing has moved for so long: it hangs */
	MS_NS = 1000000
};

enum identity { OWNER, IOUNIT, APP, GUEST, SCREEN, IDENTITIES };

/* Their names are those of their files, too. */
static const char *const names[IDENTITIES] = { "owner", "disks", "app", "guest", "screen" };

struct demo {
	const struct demo_cluster_options *options;
	struct demo_folder folder;
	char keys[IDENTITIES][RIO_KEY_DIGITS + 1]; /* public */
	char device[DEMO_PATH + 64], log[DEMO_PATH];
	struct demo_child iounit, owner, requester;
	pid_t last_requester;
	char iounit_at[WEFT_ADDRESS_TEXT], owner_at[WEFT_ADDRESS_TEXT];
	/* The requester that watches. */
	struct rio_role_file *screen;
	struct weft_rio_requester *watcher;
	struct weft_rio_member owner_seen, iounit_seen;
	/* The terminal. */
	bool is_terminal, has_colour;
	int drawn; /* lines of the picture that is there */
	uint64_t drawn_ns;
};

/* ---- What is shown -------------------------------------------------------------------------- */

static const char *paint(const struct demo *d, const char *colour)
{
	return d->has_colour ? colour : "";
}

#define GREEN "\033[32m"
#define RED "\033[31m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

static void erase(struct demo *d)
{
	if (d->drawn > 0)
		printf("\033[%dA\033[J", d->drawn);
	d->drawn = 0;
}

__attribute__((format(printf, 2, 3))) static bool good(struct demo *d, const char *format, ...)
{
	va_list args;

	erase(d);
	printf("%sok%s  ", paint(d, GREEN), paint(d, PLAIN));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return true;
}

__attribute__((format(printf, 2, 3))) static bool bad(struct demo *d, const char *format, ...)
{
	va_list args;

	erase(d);
	printf("%sno%s  ", paint(d, RED), paint(d, PLAIN));
	if (demo_is_interrupted()) {
		printf("interrupted\n");
		return false;
	}
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	return false;
}

static void text_line(struct demo *d, const char *line)
{
	printf("%s\n", line);
	d->drawn++;
}

/* The three roles; what each path has carried so far. */
static void draw(struct demo *d)
{
	const struct weft_rio_traffic *m = &d->owner_seen.moved;
	char in[CLUSTER_BYTES_TEXT], out[CLUSTER_BYTES_TEXT], payload[CLUSTER_BYTES_TEXT],
		read[CLUSTER_BYTES_TEXT], written[CLUSTER_BYTES_TEXT], line[DEMO_LINE];

	cluster_view_bytes(m->control_in, in);
	cluster_view_bytes(m->control_out, out);
	cluster_view_bytes(m->payload_in + m->payload_out, payload);
	cluster_view_bytes(d->iounit_seen.read_bytes, read);
	cluster_view_bytes(d->iounit_seen.written_bytes, written);
	text_line(d, "");
	snprintf(line, sizeof(line), "                    %sowner 1.1%s, pid %d", paint(d, BOLD),
		 paint(d, PLAIN), (int)d->owner.pid);
	text_line(d, line);
	snprintf(line, sizeof(line), "                    %spayload carried: %s%s",
		 paint(d, m->payload_in + m->payload_out == 0 ? GREEN : RED), payload,
		 paint(d, PLAIN));
	text_line(d, line);
	snprintf(line, sizeof(line), "                    control carried: %s in, %s out", in, out);
	text_line(d, line);
	text_line(d, "                     /                         \\");
	text_line(d, "       requests, answers                  commands, answers");
	text_line(d, "                   /                             \\");
	snprintf(line, sizeof(line),
		 "  %srequester 3.1%s, pid %-8d             %sI/O unit 2.1%s, pid %d",
		 paint(d, BOLD), paint(d, PLAIN), (int)d->last_requester, paint(d, BOLD),
		 paint(d, PLAIN), (int)d->iounit.pid);
	text_line(d, line);
	snprintf(line, sizeof(line), "  its memory   ===== %10s written =====>  device disk",
		 written);
	text_line(d, line);
	snprintf(line, sizeof(line),
		 "               <==== %10s read =========  (%" PRIu64 " requests)", read,
		 d->iounit_seen.requests);
	text_line(d, line);
	text_line(d, "");
	fflush(stdout);
}

/* What the owner says of itself and the I/O unit. */
static bool look(struct demo *d)
{
	struct weft_rio_member seen[SEEN_MAX];
	uint32_t count = 0;
	enum weft_reason r = weft_rio_requester_inquire(d->watcher, UINT64_C(5000) * MS_NS, seen,
							SEEN_MAX, &count);

	if (r != WEFT_OK)
		return bad(d, "the owner does not say how it stands: %s", weft_reason_text(r));
	for (uint32_t i = 0; i < count && i < SEEN_MAX; i++) {
		if (seen[i].kind == WEFT_RIO_IS_OWNER)
			d->owner_seen = seen[i];
		else if (seen[i].kind == WEFT_RIO_IS_IOUNIT)
			d->iounit_seen = seen[i];
	}
	return true;
}

static bool look_live(struct demo *d)
{
	uint64_t now = clock_ns();

	if (!d->is_terminal || now - d->drawn_ns < (uint64_t)DRAW_MS * MS_NS)
		return true;
	d->drawn_ns = now;
	if (!look(d))
		return false;
	erase(d);
	draw(d);
	return true;
}

/* ---- Set-up --------------------------------------------------------------------------------- */

static bool make_keys(struct demo *d)
{
	for (int i = 0; i < IDENTITIES; i++) {
		char name[DEMO_NAME], path[DEMO_PATH], why[KEY_FILE_WHY];
		uint8_t key[RIO_KEY_BYTES];

		snprintf(name, sizeof(name), "%s.key", names[i]);
		demo_folder_path(&d->folder, name, path);
		if (!key_file_make(path, key, why))
			return bad(d, "%s", why);
		rio_key_write(key, d->keys[i]);
	}
	return true;
}

static bool start(struct demo *d, struct demo_child *c, const char *role, enum identity who)
{
	char file[DEMO_NAME], path[DEMO_PATH];
	const char *const args[DEMO_ARGS] = { role, path };

	snprintf(file, sizeof(file), "%s.conf", names[who]);
	demo_folder_path(&d->folder, file, path);
	return demo_start(c, args) || bad(d, "cannot start weft %s: %s", role, strerror(errno));
}

/* Where it serves, from its own words: "... at ADDRESS:PORT". */
static bool await_address(struct demo *d, const struct demo_child *c, char at[WEFT_ADDRESS_TEXT])
{
	char line[DEMO_LINE], why[DEMO_LINE];
	const char *word;

	if (!demo_await_line(c, " at 127.0.0.1:", line)) {
		demo_complaint(c, why);
		return bad(d, "a role did not begin: %s", why);
	}
	word = strrchr(line, ' ') + 1;
	snprintf(at, WEFT_ADDRESS_TEXT, "%.*s", WEFT_ADDRESS_TEXT - 1, word);
	return true;
}

static bool start_iounit(struct demo *d)
{
	char text[2 * DEMO_LINE], image[DEMO_PATH];

	if (d->options->is_file) {
		demo_folder_path(&d->folder, "disk.img", image);
		snprintf(d->device, sizeof(d->device), "file:%s,size=%" PRIu64, image,
			 d->options->size_bytes);
	} else {
		snprintf(d->device, sizeof(d->device), "mem:%" PRIu64, d->options->size_bytes);
	}
	/* The term of its owner, which it keeps beside its key, goes with the folder. */
	demo_folder_note(&d->folder, "disks.key.term");
	demo_folder_note(&d->folder, "disks.key.term.new");
	snprintf(text, sizeof(text),
		 "role iounit\nself 2.1\nkey disks.key\nlisten 127.0.0.1:0\n"
		 "owner owner 1.1 %s\ndevice 1 disk %s\n",
		 d->keys[OWNER], d->device);
	if (!demo_folder_write(&d->folder, "disks.conf", text))
		return bad(d, "disks.conf: %s", strerror(errno));
	return start(d, &d->iounit, "iou", IOUNIT) && await_address(d, &d->iounit, d->iounit_at) &&
	       good(d, "I/O unit  2.1 is process %d at %s, with the device disk (%s)",
		    (int)d->iounit.pid, d->iounit_at,
		    d->options->is_file ? "a temporary file" : "memory");
}

static bool start_owner(struct demo *d)
{
	char text[2 * DEMO_LINE];

	/* The owner keeps its term beside its log: they go with the folder. */
	demo_folder_note(&d->folder, "decisions.log.term");
	demo_folder_note(&d->folder, "decisions.log.term.new");
	demo_folder_path(&d->folder, "decisions.log", d->log);
	snprintf(text, sizeof(text),
		 "role owner\nself 1.1\nkey owner.key\nlisten 127.0.0.1:0\nlog decisions.log\n"
		 "iounit disks 2.1 %s %s\n"
		 "requester app 3.1 %s\nrequester guest 4.1 %s\nrequester screen 5.1 %s\n"
		 "allow app read,write,flush disks/disk\nallow guest read disks/disk 0 1M\n"
		 "watch screen\n",
		 d->keys[IOUNIT], d->iounit_at, d->keys[APP], d->keys[GUEST], d->keys[SCREEN]);
	if (!demo_folder_write(&d->folder, "owner.conf", text))
		return bad(d, "owner.conf: %s", strerror(errno));
	return start(d, &d->owner, "own", OWNER) && await_address(d, &d->owner, d->owner_at) &&
	       good(d, "owner     1.1 is process %d at %s; what no rule of it allows is denied",
		    (int)d->owner.pid, d->owner_at);
}

static bool write_requesters(struct demo *d)
{
	for (int i = APP; i < IDENTITIES; i++) {
		char text[DEMO_LINE], file[DEMO_NAME];

		snprintf(text, sizeof(text),
			 "role requester\nself %d.1\nkey %s.key\nlisten 127.0.0.1:0\n"
			 "owner owner 1.1 %s %s\n",
			 i + 1, names[i], d->keys[OWNER], d->owner_at);
		snprintf(file, sizeof(file), "%s.conf", names[i]);
		if (!demo_folder_write(&d->folder, file, text))
			return bad(d, "%s: %s", file, strerror(errno));
	}
	return true;
}

/* The owner has connected to it. */
static bool await_iounit(struct demo *d)
{
	uint64_t end_ns = clock_ns() + UINT64_C(10000) * MS_NS;

	do {
		if (!look(d))
			return false;
		if (d->iounit_seen.is_here)
			return true;
	} while (clock_ns() < end_ns && !demo_is_interrupted());
	return bad(d, "the owner does not reach the I/O unit");
}

/* This process watches, as a requester that may do nothing else. */
static bool start_watching(struct demo *d)
{
	char path[DEMO_PATH];
	enum weft_reason r;

	demo_folder_path(&d->folder, "screen.conf", path);
	d->screen = malloc(sizeof(*d->screen));
	if (!d->screen || !rio_role_open(d->screen, "demo", RIO_REQUESTER, path)) {
		free(d->screen);
		d->screen = NULL;
		return bad(d, "the one who watches cannot begin");
	}
	r = weft_rio_requester_open(&d->screen->self, NULL, &d->watcher);
	if (r != WEFT_OK)
		return bad(d, "the one who watches cannot begin: %s", weft_reason_text(r));
	return await_iounit(d);
}

/* ---- Moving data ---------------------------------------------------------------------------- */

static bool start_io(struct demo *d, enum identity who, const char *verb, uint64_t length)
{
	char file[DEMO_NAME], path[DEMO_PATH], bytes[32];
	const char *const args[DEMO_ARGS] = { "io",  path,	verb,	  "disk", "--length",
					      bytes, "--quiet", "--wait", "10s" };

	snprintf(bytes, sizeof(bytes), "%" PRIu64, length);
	snprintf(file, sizeof(file), "%s.conf", names[who]);
	demo_folder_path(&d->folder, file, path);
	if (!demo_start(&d->requester, args))
		return bad(d, "cannot start weft io: %s", strerror(errno));
	fcntl(d->requester.in, F_SETFL, O_NONBLOCK);
	if (who == APP)
		d->last_requester = d->requester.pid;
	return true;
}

static void end_io(struct demo *d)
{
	demo_close(&d->requester.in);
	demo_close(&d->requester.out);
	(void)demo_end(&d->requester, 0, STILL_S);
}

static void forget_io(struct demo *d)
{
	demo_close(&d->requester.err);
}

/* More of the pattern into its input; how much it took, -1: it takes no more. */
static ssize_t feed(const struct demo *d, uint64_t done, uint8_t *chunk, size_t length)
{
	ssize_t n;

	demo_pattern(done, chunk, length);
	n = write(d->requester.in, chunk, length);
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

/* Some of its output, which must be the pattern. */
static ssize_t drain(const struct demo *d, uint64_t done, uint8_t *chunk, size_t length)
{
	uint8_t *wanted = chunk + CHUNK;
	ssize_t n = read(d->requester.out, chunk, length);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0)
		return -1;
	demo_pattern(done, wanted, (size_t)n);
	return memcmp(chunk, wanted, (size_t)n) == 0 ? n : -2;
}

/* The whole device, into the requester or out of it. How much went well. */
static uint64_t pump(struct demo *d, bool is_write, uint64_t all)
{
	struct pollfd p = { .fd = is_write ? d->requester.in : d->requester.out,
			    .events = is_write ? POLLOUT : POLLIN };
	uint8_t *chunk = malloc(2 * (size_t)CHUNK);
	uint64_t done = 0, moved_ns = clock_ns();

	while (chunk && done < all && !demo_is_interrupted() && look_live(d)) {
		size_t length = all - done < CHUNK ? (size_t)(all - done) : CHUNK;
		ssize_t n = 0;

		if (poll(&p, 1, DRAW_MS) > 0)
			n = is_write ? feed(d, done, chunk, length) : drain(d, done, chunk, length);
		if (n < 0 || clock_ns() - moved_ns > (uint64_t)STILL_S * 1000 * MS_NS)
			break;
		if (n > 0)
			moved_ns = clock_ns();
		done += (uint64_t)n;
	}
	free(chunk);
	return done;
}

static bool move(struct demo *d, bool is_write)
{
	const char *verb = is_write ? "write" : "read";
	uint64_t all = d->options->size_bytes, start_ns = clock_ns(), done;
	char size[CLUSTER_BYTES_TEXT], why[DEMO_LINE];
	double seconds;

	if (!start_io(d, APP, verb, all))
		return false;
	done = pump(d, is_write, all);
	if (demo_is_interrupted())
		return bad(d, "interrupted");
	end_io(d);
	seconds = (double)(clock_ns() - start_ns) / 1e9;
	demo_complaint(&d->requester, why);
	forget_io(d);
	if (done != all || d->requester.status != 0)
		return bad(d, "weft io %s ended with status %d after %" PRIu64 " good bytes: %s",
			   verb, d->requester.status, done, why);
	cluster_view_bytes(all, size);
	return good(d, "requester 3.1, process %d, %s %s in %.2f s%s", (int)d->last_requester,
		    is_write ? "wrote" : "read", size, seconds,
		    is_write ? "" : ": every byte is as it was written");
}

/* A requester that may only read the first MiB writes; the owner's log has the denial. */
static bool show_denial(struct demo *d)
{
	uint8_t *zeros = calloc(1, REFUSED_BYTES);
	char why[DEMO_LINE], line[DEMO_LINE];

	if (!zeros || !start_io(d, GUEST, "write", REFUSED_BYTES)) {
		free(zeros);
		return false;
	}
	fcntl(d->requester.in, F_SETFL, 0);
	(void)!write(d->requester.in, zeros, REFUSED_BYTES); /* it may have gone before */
	free(zeros);
	end_io(d);
	demo_complaint(&d->requester, why);
	forget_io(d);
	if (d->requester.status != 1 || !strstr(why, "rio_denied"))
		return bad(d, "requester 4.1 was to be denied; status %d: %s", d->requester.status,
			   why);
	if (!demo_await_in_file(d->log, " refused 4.1#", line))
		return bad(d, "the denial is not in the owner's log");
	(void)good(d, "requester 4.1 may not write, and was denied; the owner's log has it:");
	printf("      %s\n", line);
	return true;
}

/* ---- What comes of it ----------------------------------------------------------------------- */

/* The owner hears of the last requests a little later than the requester. */
static bool settle(struct demo *d)
{
	uint64_t all = d->options->size_bytes, end_ns = clock_ns() + UINT64_C(5000) * MS_NS;

	do {
		if (!look(d))
			return false;
		if (d->iounit_seen.now == 0 && d->iounit_seen.read_bytes == all &&
		    d->iounit_seen.written_bytes == all)
			return true;
	} while (clock_ns() < end_ns && !demo_is_interrupted());
	return bad(d, "the owner counts %" PRIu64 " bytes read and %" PRIu64 " written",
		   d->iounit_seen.read_bytes, d->iounit_seen.written_bytes);
}

static bool judge_owner(struct demo *d)
{
	const struct weft_rio_traffic *m = &d->owner_seen.moved;

	if (m->payload_in != 0 || m->payload_out != 0 || m->connections != 0)
		return bad(d, "the owner carried payload: %" PRIu64 " in, %" PRIu64 " out",
			   m->payload_in, m->payload_out);
	return good(d,
		    "the owner's adapter carried 0 bytes of payload, and %" PRIu64
		    " bytes of control for %" PRIu64 " requests",
		    m->control_in + m->control_out, d->iounit_seen.requests);
}

/* Ended in order, each says what its own adapter carried. */
static bool judge_iounit(struct demo *d, struct weft_rio_traffic *m)
{
	const char *at;
	char line[DEMO_LINE];

	kill(d->iounit.pid, SIGTERM);
	if (!demo_await_line(&d->iounit, "carried payload", line))
		return bad(d, "the I/O unit did not say what it carried");
	at = strstr(line, "carried payload");
	if (sscanf(at,
		   "carried payload in %" SCNu64 " out %" SCNu64 ", control in %" SCNu64
		   " out %" SCNu64 ", data connections %" SCNu64,
		   &m->payload_in, &m->payload_out, &m->control_in, &m->control_out,
		   &m->connections) != 5)
		return bad(d, "the I/O unit said: %s", line);
	if (m->payload_in < d->options->size_bytes || m->payload_out < d->options->size_bytes)
		return bad(d, "the I/O unit carried less than was moved: %s", line);
	return good(d,
		    "the I/O unit's adapter carried %" PRIu64 " bytes of payload in, %" PRIu64
		    " out, over %" PRIu64 " data connections that it made",
		    m->payload_in, m->payload_out, m->connections);
}

static void show_paths(const struct demo *d, const struct weft_rio_traffic *iounit)
{
	const struct weft_rio_traffic *owner = &d->owner_seen.moved;
	uint64_t all = d->options->size_bytes;
	const struct {
		const char *what;
		uint64_t directed, relayed;
	} rows[] = {
		{ "requester to I/O unit", iounit->payload_in, 0 },
		{ "I/O unit to requester", iounit->payload_out, 0 },
		{ "into the owner", owner->payload_in, 2 * all },
		{ "out of the owner", owner->payload_out, 2 * all },
		{ "in all", iounit->payload_in + iounit->payload_out, 4 * all },
	};

	printf("\n%-28s %18s %24s\n", "payload, in bytes", "directed: measured",
	       "relayed: reckoned");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		printf("%-28s %18" PRIu64 " %24" PRIu64 "\n", rows[i].what, rows[i].directed,
		       rows[i].relayed);
	printf("\nWhat the I/O unit sends includes a word of 60 bytes behind the data of each request.\n"
	       "Relayed is what the double movement would have carried: each byte into the owner\n"
	       "and out again. Nothing of that was done here; ./dev bench rio does and measures it.\n\n");
}

static bool play(struct demo *d)
{
	struct weft_rio_traffic iounit;

	if (!demo_folder_make(&d->folder))
		return bad(d, "a temporary folder: %s", strerror(errno));
	if (!make_keys(d) ||
	    !good(d, "keys of five identities are in %s, which will be removed", d->folder.path))
		return false;
	if (!start_iounit(d) || !start_owner(d) || !write_requesters(d) || !start_watching(d))
		return false;
	if (!move(d, true) || !show_denial(d) || !move(d, false) || !settle(d))
		return false;
	draw(d);
	d->drawn = 0; /* it stays */
	if (!judge_owner(d) || !judge_iounit(d, &iounit))
		return false;
	show_paths(d, &iounit);
	return true;
}

/* Whatever has begun ends. */
static void clean(struct demo *d)
{
	if (d->watcher)
		weft_rio_requester_close(d->watcher);
	if (d->screen)
		rio_role_close(d->screen);
	free(d->screen);
	(void)demo_end(&d->requester, SIGTERM, 2);
	(void)demo_end(&d->owner, SIGTERM, STILL_S);
	(void)demo_end(&d->iounit, SIGTERM, STILL_S);
	for (int i = 0; i < 3; i++) {
		struct demo_child *c = i == 0 ? &d->requester : i == 1 ? &d->owner : &d->iounit;

		demo_close(&c->in);
		demo_close(&c->out);
		demo_close(&c->err);
	}
	demo_folder_remove(&d->folder);
}

int demo_cluster(const struct demo_cluster_options *options)
{
	static const struct demo_child no_child = { .in = -1, .out = -1, .err = -1 };
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	struct demo d = { .options = options, .iounit = no_child, .owner = no_child };
	bool is_good;

	d.requester = no_child;
	d.is_terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
	d.has_colour = d.is_terminal && (!no_color || no_color[0] == '\0');
	demo_signals_take();
	is_good = play(&d);
	clean(&d);
	if (d.owner.status != 0 || d.iounit.status != 0)
		is_good = false;
	if (is_good)
		(void)good(&d,
			   "owner and I/O unit ended in order, the folder is gone: all verified");
	else
		printf("%sno%s  not verified\n", paint(&d, RED), paint(&d, PLAIN));
	return is_good ? 0 : 1;
}
