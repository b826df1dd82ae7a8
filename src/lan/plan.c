/* SPDX-License-Identifier: BSD-2-Clause */
#include "lan/plan.h"

#include <string.h>

#include "base/quantity.h"

enum { FANOUT_MAX = 65535 };

static const struct {
	const char *name;
	bool is_interface;
} kinds[LAN_KINDS] = {
	[LAN_KIND_PACKET] = { "packet", true },
	[LAN_KIND_SOCKET] = { "socket", false },
	[LAN_KIND_TAP] = { "tap", true },
	[LAN_KIND_VHOST_USER] = { "vhost-user", false },
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool lan_mac_parse(const char *text, uint32_t length, uint8_t mac[LAN_MAC_BYTES])
{
	enum { EACH = 3 }; /* characters of a byte, with the colon */
	uint8_t is_any = 0;

	if (length != EACH * LAN_MAC_BYTES - 1)
		return false;
	for (int i = 0; i < LAN_MAC_BYTES; i++) {
		const char *at = text + (size_t)i * EACH;
		int high = digit_of(at[0]), low = digit_of(at[1]);

		if (high < 0 || low < 0 || (i < LAN_MAC_BYTES - 1 && at[2] != ':'))
			return false;
		mac[i] = (uint8_t)(high << 4 | low);
		is_any |= mac[i];
	}
	/* The first bit that is sent says that it is of a group. */
	return is_any != 0 && !(mac[0] & 1);
}

static bool take_flag(struct word text, bool *flag)
{
	if (text.length > 0)
		return false;
	*flag = true;
	return true;
}

static bool take_listen(struct lan_plan *p, struct word text)
{
	return take_flag(text, &p->is_listening);
}

static bool take_connect(struct lan_plan *p, struct word text)
{
	bool is_connecting;

	p->is_listening = false;
	return take_flag(text, &is_connecting);
}

static bool take_mac(struct lan_plan *p, struct word text)
{
	p->has_mac = true;
	return lan_mac_parse(text.at, text.length, p->mac);
}

static bool take_mtu(struct lan_plan *p, struct word text)
{
	uint64_t n;

	if (!quantity_number(text, &n) || n < LAN_MTU_MIN || n > LAN_MTU_MAX)
		return false;
	p->mtu = (uint32_t)n;
	return true;
}

static bool take_fanout(struct lan_plan *p, struct word text)
{
	uint64_t n;

	if (!quantity_number(text, &n) || n == 0 || n > FANOUT_MAX)
		return false;
	p->fanout = (uint32_t)n;
	return true;
}

static bool take_queues(struct lan_plan *p, struct word text)
{
	uint64_t n;

	if (!quantity_number(text, &n) || n == 0 || n > LAN_QUEUES_MAX)
		return false;
	p->queues = (uint32_t)n;
	return true;
}

enum {
	PACKET = 1 << LAN_KIND_PACKET,
	SOCKET = 1 << LAN_KIND_SOCKET,
	TAP = 1 << LAN_KIND_TAP,
};

static const struct {
	const char *name;
	uint32_t kinds;
	bool (*take)(struct lan_plan *p, struct word value);
	const char *why;
} options[] = {
	{ "connect", SOCKET, take_connect, "connect has no value" },
	{ "fanout", PACKET, take_fanout, "fanout is a number from 1 to 65535" },
	{ "listen", SOCKET, take_listen, "listen has no value" },
	{ "mac", PACKET | TAP | SOCKET, take_mac,
	  "mac is the address of one station, as 02:00:00:00:00:01" },
	{ "mtu", PACKET | TAP | SOCKET, take_mtu, "mtu is a number from 68 to 65521" },
	{ "queues", TAP, take_queues, "queues is a number from 1 to 16" },
};

/* "NAME" or "NAME=VALUE". */
static bool take_option(struct lan_plan *p, struct word text, const char **why)
{
	const char *is = memchr(text.at, '=', text.length);
	struct word name = { text.at, is ? (uint32_t)(is - text.at) : text.length };
	struct word value = { is ? is + 1 : "", is ? text.length - name.length - 1 : 0 };

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (!word_is(name, options[i].name))
			continue;
		*why = options[i].kinds & 1U << p->kind ? options[i].why
							: "this kind of port has no such option";
		return options[i].kinds & 1U << p->kind && options[i].take(p, value);
	}
	*why = "no frame port has such an option";
	return false;
}

/* Takes the word up to the mark or the end. */
static struct word next_word(const char **at, char mark)
{
	size_t left = strlen(*at);
	const char *end = memchr(*at, mark, left);
	struct word w = { *at, (uint32_t)(end ? (size_t)(end - *at) : left) };

	*at = end ? end + 1 : *at + left;
	return w;
}

/* As Linux has it. */
static bool names_interface(struct word name)
{
	static const char marks[] = "/: \t\n\v\f\r";
	bool is_good = name.length > 0 && name.length < LAN_INTERFACE_MAX && !word_is(name, ".") &&
		       !word_is(name, "..");

	for (uint32_t i = 0; i < name.length && is_good; i++)
		is_good = !memchr(marks, name.at[i], sizeof(marks));
	return is_good;
}

static bool take_name(struct lan_plan *p, struct word name, const char **why)
{
	bool is_interface = kinds[p->kind].is_interface;
	bool is_good = is_interface ? names_interface(name)
				    : name.length > 0 && name.length < LAN_NAME_MAX;

	p->is_path = !is_interface && name.length > 0 &&
		     (p->kind == LAN_KIND_VHOST_USER || memchr(name.at, '/', name.length));
	if (!is_good) {
		*why = is_interface ? "the name of an interface has 1 to 15 characters, and is "
				      "without / : and spaces"
				    : "a path or address has 1 to 107 characters";
		return false;
	}
	memcpy(p->name, name.at, name.length);
	return true;
}

bool lan_plan_parse(const char *text, struct lan_plan *plan, const char **why)
{
	struct lan_plan p = { 0 };
	const char *at = text;
	struct word kind = next_word(&at, ':');

	*why = "it begins with packet:, tap:, socket: or vhost-user:";
	while (p.kind < LAN_KINDS && !word_is(kind, kinds[p.kind].name))
		p.kind++;
	if (p.kind == LAN_KINDS || at == kind.at + kind.length)
		return false;
	if (!take_name(&p, next_word(&at, ','), why))
		return false;
	/* Bound: each round takes characters away. */
	while (at[-1] == ',' || *at) {
		if (!take_option(&p, next_word(&at, ','), why))
			return false;
	}
	*plan = p;
	return true;
}
