/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/roles/cluster_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PLATFORM_TEXT = 24 };

static const double ns_per_s = 1e9;

void cluster_view_bytes(uint64_t bytes, char text[CLUSTER_BYTES_TEXT])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes / 1024;
	int unit = 0;

	if (bytes < 1024) {
		snprintf(text, CLUSTER_BYTES_TEXT, "%" PRIu64 " bytes", bytes);
		return;
	}
	while (value >= 1024 && unit < 5) {
		value /= 1024;
		unit++;
	}
	snprintf(text, CLUSTER_BYTES_TEXT, "%.1f %s", value, units[unit]);
}

void cluster_view_moved(const struct weft_rio_traffic *m, char text[CLUSTER_MOVED_TEXT])
{
	snprintf(text, CLUSTER_MOVED_TEXT,
		 "carried payload in %" PRIu64 " out %" PRIu64 ", control in %" PRIu64
		 " out %" PRIu64 ", data connections %" PRIu64,
		 m->payload_in, m->payload_out, m->control_in, m->control_out, m->connections);
}

/* ---- For people ----------------------------------------------------------------------------- */

static const char *platform_text(struct weft_rio_platform p, char text[PLATFORM_TEXT])
{
	snprintf(text, PLATFORM_TEXT, "%" PRIu32 ".%" PRIu32, p.unit, p.process);
	return text;
}

static const struct weft_rio_member *find(const struct cluster_look *look,
					  const struct weft_rio_member *like)
{
	for (uint32_t i = 0; look && i < look->count; i++) {
		const struct weft_rio_member *s = &look->seen[i];

		if (s->kind == like->kind && s->platform.unit == like->platform.unit &&
		    s->platform.process == like->platform.process)
			return s;
	}
	return NULL;
}

/* What has been moved since, for each second. One that has connected anew begins at 0 again. */
static void rate_text(uint64_t now, uint64_t before, double seconds, char text[CLUSTER_BYTES_TEXT])
{
	char bytes[CLUSTER_BYTES_TEXT - 2];

	if (seconds <= 0) {
		text[0] = '\0';
		return;
	}
	cluster_view_bytes((uint64_t)((double)(now - (before <= now ? before : 0)) / seconds),
			   text);
	snprintf(bytes, sizeof(bytes), "%.*s", (int)sizeof(bytes) - 1, text);
	snprintf(text, CLUSTER_BYTES_TEXT, "%s/s", bytes);
}

static void print_peer(const struct weft_rio_member *s, const struct cluster_look *now,
		       const struct cluster_look *before)
{
	const struct weft_rio_member *was = find(before, s);
	double seconds = was ? (double)(now->at_ns - before->at_ns) / ns_per_s : 0;
	char platform[PLATFORM_TEXT], read[CLUSTER_BYTES_TEXT], written[CLUSTER_BYTES_TEXT];
	char read_rate[CLUSTER_BYTES_TEXT], written_rate[CLUSTER_BYTES_TEXT];

	platform_text(s->platform, platform);
	if (!s->is_here) {
		printf("%-20s %-8s not connected\n", s->name, platform);
		return;
	}
	cluster_view_bytes(s->read_bytes, read);
	cluster_view_bytes(s->written_bytes, written);
	rate_text(s->read_bytes, was ? was->read_bytes : 0, seconds, read_rate);
	rate_text(s->written_bytes, was ? was->written_bytes : 0, seconds, written_rate);
	printf("%-20s %-8s %5" PRIu32 " %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %11s %11s", s->name,
	       platform, s->now, s->requests, s->refused, s->failed, read, written);
	if (before)
		printf(" %13s %13s", read_rate, written_rate);
	printf("\n");
}

static void print_peers(enum weft_rio_kind kind, const char *title, const struct cluster_look *now,
			const struct cluster_look *before)
{
	printf("\n%-20s %-8s %5s %10s %8s %8s %11s %11s", title, "platform", "now", "requests",
	       "refused", "failed", "read", "written");
	if (before)
		printf(" %13s %13s", "reading", "writing");
	printf("\n");
	for (uint32_t i = 0; i < now->count; i++) {
		if (now->seen[i].kind == kind)
			print_peer(&now->seen[i], now, before);
	}
}

static const char *name_of(const struct cluster_look *look, struct weft_rio_platform p)
{
	const struct weft_rio_member *s = find(
		look, &(struct weft_rio_member){ .kind = WEFT_RIO_IS_IOUNIT, .platform = p });

	return s ? s->name : "";
}

static void print_devices(const struct cluster_look *now)
{
	printf("\n%-20s %-20s %10s %15s %6s\n", "device", "at", "number", "bytes", "block");
	for (uint32_t i = 0; i < now->count; i++) {
		const struct weft_rio_member *s = &now->seen[i];

		if (s->kind == WEFT_RIO_IS_DEVICE)
			printf("%-20s %-20s %10" PRIu32 " %15" PRIu64 " %6" PRIu32 "%s\n", s->name,
			       name_of(now, s->platform), s->device.number, s->device.size_bytes,
			       s->device.block_bytes, s->device.is_readonly ? " read only" : "");
	}
}

static void print_owner(const struct weft_rio_member *s, const char *name)
{
	char in[CLUSTER_BYTES_TEXT], out[CLUSTER_BYTES_TEXT], control_in[CLUSTER_BYTES_TEXT],
		control_out[CLUSTER_BYTES_TEXT], platform[PLATFORM_TEXT];

	cluster_view_bytes(s->moved.payload_in, in);
	cluster_view_bytes(s->moved.payload_out, out);
	cluster_view_bytes(s->moved.control_in, control_in);
	cluster_view_bytes(s->moved.control_out, control_out);
	printf("owner %s %s: %" PRIu32 " requests now\n", name,
	       platform_text(s->platform, platform), s->now);
	printf("its adapter carried payload: %s in, %s out; control: %s in, %s out\n", in, out,
	       control_in, control_out);
}

void cluster_view_print(const struct cluster_look *now, const struct cluster_look *before)
{
	for (uint32_t i = 0; i < now->count; i++) {
		if (now->seen[i].kind == WEFT_RIO_IS_OWNER)
			print_owner(&now->seen[i], now->owner);
	}
	print_peers(WEFT_RIO_IS_REQUESTER, "requester", now, before);
	print_peers(WEFT_RIO_IS_IOUNIT, "I/O unit", now, before);
	print_devices(now);
	if (now->total > now->count)
		printf("and %" PRIu32 " more that are not shown\n", now->total - now->count);
}

/* ---- For programs --------------------------------------------------------------------------- */

void cluster_view_json_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void json_who(const struct weft_rio_member *s, const char *name)
{
	printf("{\"name\":");
	cluster_view_json_text(name);
	printf(",\"platform\":\"%" PRIu32 ".%" PRIu32 "\"", s->platform.unit, s->platform.process);
}

static void json_owner(const struct weft_rio_member *s, const char *name)
{
	json_who(s, name);
	printf(",\"now\":%" PRIu32 ",\"payload_in\":%" PRIu64 ",\"payload_out\":%" PRIu64
	       ",\"control_in\":%" PRIu64 ",\"control_out\":%" PRIu64
	       ",\"data_connections\":%" PRIu64 "}",
	       s->now, s->moved.payload_in, s->moved.payload_out, s->moved.control_in,
	       s->moved.control_out, s->moved.connections);
}

static void json_peer(const struct weft_rio_member *s)
{
	json_who(s, s->name);
	printf(",\"connected\":%s,\"now\":%" PRIu32 ",\"requests\":%" PRIu64 ",\"refused\":%" PRIu64
	       ",\"failed\":%" PRIu64 ",\"read\":%" PRIu64 ",\"written\":%" PRIu64 "}",
	       s->is_here ? "true" : "false", s->now, s->requests, s->refused, s->failed,
	       s->read_bytes, s->written_bytes);
}

static void json_device(const struct weft_rio_member *s)
{
	json_who(s, s->name);
	printf(",\"number\":%" PRIu32 ",\"size\":%" PRIu64 ",\"block\":%" PRIu32
	       ",\"readonly\":%s}",
	       s->device.number, s->device.size_bytes, s->device.block_bytes,
	       s->device.is_readonly ? "true" : "false");
}

static void json_all(const struct cluster_look *now, enum weft_rio_kind kind,
		     void (*each)(const struct weft_rio_member *s))
{
	bool is_first = true;

	for (uint32_t i = 0; i < now->count; i++) {
		if (now->seen[i].kind != kind)
			continue;
		if (!is_first)
			putchar(',');
		is_first = false;
		each(&now->seen[i]);
	}
}

void cluster_view_json(const struct cluster_look *now)
{
	printf("{");
	for (uint32_t i = 0; i < now->count; i++) {
		if (now->seen[i].kind == WEFT_RIO_IS_OWNER) {
			printf("\"owner\":");
			json_owner(&now->seen[i], now->owner);
			printf(",");
		}
	}
	printf("\"requesters\":[");
	json_all(now, WEFT_RIO_IS_REQUESTER, json_peer);
	printf("],\"iounits\":[");
	json_all(now, WEFT_RIO_IS_IOUNIT, json_peer);
	printf("],\"devices\":[");
	json_all(now, WEFT_RIO_IS_DEVICE, json_device);
	printf("]}\n");
}
