/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	device	= kind [":" item {"," item}] ["(" device {"," device} ")"]
 *	item	= word | word "=" value | value, which comes first
 *
 * A comma inside parentheses is followed by another item or another device. A device begins with a
 * kind and ":" or "(".
 */
#include "store/plan.h"

#include <string.h>

#include "base/quantity.h"

enum {
	CHANCE_ONE = 1000000000,
	CHANCE_DIGITS = 9,
	TEXT_MAX = 65536,
	CACHE_ROOM_BYTES = 16 << 20,
	FILE_WAIT_NS = 500000000
};

static const char no_url[] = "a disk of an iSCSI target has a URL: iscsi://HOST/TARGET/LUN";

struct reader {
	struct store_plan *plan;
	struct store_complaint *complaint;
	const char *text, *at;
};

struct kind_rule {
	const char *name;
	uint32_t members_min, members_max;
	const char *value; /* message if the leading value is missing; NULL: the kind has none */
};

static const struct kind_rule kind_rules[STORE_KIND_COUNT] = {
	[STORE_KIND_MEM] = { "mem", 0, 0, "memory has a size: mem:1G" },
	[STORE_KIND_FILE] = { "file", 0, 0, "a file has a path: file:/path" },
	[STORE_KIND_STRIPE] = { "stripe", 1, STORE_MEMBERS_MAX,
				"a stripe has a length: stripe:64k(...)" },
	[STORE_KIND_MIRROR] = { "mirror", 1, STORE_MEMBERS_MAX, NULL },
	[STORE_KIND_DELAY] = { "delay", 1, 1, "a delay has a time: delay:1ms(...)" },
	[STORE_KIND_FAULT] = { "fault", 1, 1, NULL },
	[STORE_KIND_RIO] = { "rio", 0, 0,
			     "a directed device has a configuration: rio:/path,device=NAME" },
	[STORE_KIND_VOLATILE] = { "volatile", 1, 1, NULL },
	[STORE_KIND_ISCSI] = { "iscsi", 0, 0, no_url },
	[STORE_KIND_ISER] = { "iser", 0, 0, no_url },
};

const char *store_kind_name(enum store_kind kind)
{
	return kind_rules[kind].name;
}

static bool complain(struct reader *r, const char *at, const char *why)
{
	r->complaint->at = (uint32_t)(at - r->text);
	r->complaint->why = why;
	return false;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static bool is_sign(char c)
{
	return c == ',' || c == '(' || c == ')' || c == '\0';
}

/* From 0 to 1, such as "0.001". */
static bool chance_of(struct word w, uint32_t *chance)
{
	uint64_t ones, parts = 0;
	uint32_t digits = 0;

	if (!word_take_number(&w, &ones) || ones > 1)
		return false;
	if (w.length > 0) {
		if (*w.at != '.')
			return false;
		w.at++;
		w.length--;
		digits = w.length;
		if (digits > CHANCE_DIGITS || !word_take_number(&w, &parts) || w.length > 0)
			return false;
	}
	for (; digits < CHANCE_DIGITS; digits++)
		parts *= 10;
	if (ones > 0 && parts > 0)
		return false;
	*chance = (uint32_t)(ones * CHANCE_ONE + parts);
	return true;
}

/* ---- Items: NULL or what is wrong with it --------------------------------------------------- */

static const char bad_size[] = "a size is a whole number with k, M, G, T or P, or without";
/* Of a mirror for its members, and for the connection to an iSCSI target that was lost. */
static const uint64_t member_wait_ns = UINT64_C(30000000000);

static const char bad_time[] = "a time is a whole number with ns, us, ms or s";

/*
 * A device of this kind is a URL as it is: the kind is its scheme. In quotes, which a comma or a
 * parenthesis needs, it may stand whole. Its user says what else is wrong with it.
 */
static const char *read_url(struct store_node *n, struct word w)
{
	const char *name = kind_rules[n->kind].name;
	uint32_t scheme = (uint32_t)strlen(name) + 1;

	if (w.length > scheme && memcmp(w.at, name, scheme - 1) == 0 && w.at[scheme - 1] == ':') {
		w.at += scheme;
		w.length -= scheme;
	}
	if (w.length < 3 || w.at[0] != '/' || w.at[1] != '/')
		return no_url;
	n->path = w.at;
	n->path_length = w.length;
	return NULL;
}

static const char *read_value(struct store_node *n, struct word w)
{
	switch (n->kind) {
	case STORE_KIND_MEM:
		return quantity_size(w, &n->size_bytes) ? NULL : bad_size;
	case STORE_KIND_FILE:
		n->path = w.at;
		n->path_length = w.length;
		return w.length > 0 ? NULL : "a file has a path: file:/path";
	case STORE_KIND_RIO:
		n->path = w.at;
		n->path_length = w.length;
		return w.length > 0 ? NULL : kind_rules[STORE_KIND_RIO].value;
	case STORE_KIND_ISCSI:
	case STORE_KIND_ISER:
		return read_url(n, w);
	case STORE_KIND_STRIPE:
		return quantity_size(w, &n->unit_bytes) ? NULL : bad_size;
	case STORE_KIND_DELAY:
		return quantity_time(w, &n->delay_ns) ? NULL : bad_time;
	default:
		return "this kind of device has no such value";
	}
}

static const char *read_block(struct store_node *n, struct word w)
{
	uint64_t bytes;

	if (!quantity_size(w, &bytes) || (bytes != 512 && bytes != 4096))
		return "a block has 512 or 4096 bytes";
	n->block_bytes = (uint32_t)bytes;
	return NULL;
}

static const char *read_range(struct fault_store_config *c, struct word w)
{
	const char *plus = w.length > 0 ? memchr(w.at, '+', w.length) : NULL;
	struct fault_store_range *range = &c->ranges[c->range_count];
	uint32_t before;

	if (!plus)
		return "a bad range is OFFSET+LENGTH: at=1M+4k";
	if (c->range_count == FAULT_STORE_RANGES_MAX)
		return "there can be 8 bad ranges";
	before = (uint32_t)(plus - w.at);
	if (!quantity_size((struct word){ w.at, before }, &range->offset) ||
	    !quantity_size((struct word){ plus + 1, w.length - before - 1 }, &range->length))
		return bad_size;
	c->range_count++;
	return NULL;
}

static const char *read_file_item(struct store_node *n, struct word name, struct word value)
{
	bool is_file = n->kind == STORE_KIND_FILE, has_value = value.at != NULL;

	if (word_is(name, "block") && has_value)
		return read_block(n, value);
	if (word_is(name, "ro") && !has_value) {
		n->is_readonly = true;
		return NULL;
	}
	if (!is_file)
		return "mem has block=512, block=4096 and ro";
	if (word_is(name, "size") && has_value)
		return quantity_size(value, &n->size_bytes) && n->size_bytes > 0 ? NULL : bad_size;
	if (word_is(name, "wait") && has_value)
		return quantity_time(value, &n->wait_ns) ? NULL : bad_time;
	if (word_is(name, "direct") && !has_value)
		n->is_direct = true;
	else if (word_is(name, "uring") && !has_value)
		n->engine = STORE_ENGINE_URING;
	else if (word_is(name, "threads") && !has_value)
		n->engine = STORE_ENGINE_THREADS;
	else
		return "file has size=SIZE, block=512, block=4096, ro, direct, wait=TIME, uring and "
		       "threads";
	return NULL;
}

static const char bad_chance[] = "a chance is a number from 0 to 1 with at most 9 decimals";
static const char bad_number[] = "this is a whole number below 2^64";

static const char *read_cache_item(struct volatile_store_config *c, struct word name,
				   struct word value)
{
	if (word_is(name, "seed"))
		return quantity_number(value, &c->seed) ? NULL : bad_number;
	if (word_is(name, "keep"))
		return chance_of(value, &c->keep) ? NULL : bad_chance;
	if (word_is(name, "room"))
		return quantity_size(value, &c->room_bytes) ? NULL : bad_size;
	return "volatile has seed=N, keep=CHANCE and room=SIZE";
}

static const char *read_fault_item(struct fault_store_config *c, struct word name,
				   struct word value)
{
	if (word_is(name, "seed"))
		return quantity_number(value, &c->seed) ? NULL : bad_number;
	if (word_is(name, "crash"))
		return quantity_number(value, &c->crash_at) ? NULL : bad_number;
	if (word_is(name, "error"))
		return chance_of(value, &c->error) ? NULL : bad_chance;
	if (word_is(name, "torn"))
		return chance_of(value, &c->torn) ? NULL : bad_chance;
	if (word_is(name, "at"))
		return read_range(c, value);
	return "fault has seed=N, error=CHANCE, torn=CHANCE, crash=N and at=OFFSET+LENGTH";
}

static const char mirror_wait_none[] =
	"a mirror waits for the answer of each member, so this is more than 0s; for a member that "
	"is missing it does not wait: see degraded";

static const char *read_mirror_item(struct store_node *n, struct word name, struct word value)
{
	bool has_value = value.at != NULL;

	if (word_is(name, "wait") && has_value) {
		if (!quantity_time(value, &n->wait_ns))
			return bad_time;
		/* No file answers at once: a mirror of files could never be opened. */
		return n->wait_ns > 0 ? NULL : mirror_wait_none;
	}
	if (word_is(name, "degraded") && !has_value)
		n->is_degraded_ok = true;
	else if (word_is(name, "adopt") && !has_value)
		n->is_adopting = true;
	else
		return "mirror has degraded, adopt and wait=TIME";
	return NULL;
}

static const char *read_iscsi_item(struct store_node *n, struct word name, struct word value)
{
	if (word_is(name, "wait") && value.at)
		return quantity_time(value, &n->wait_ns) ? NULL : bad_time;
	if (!word_is(name, "ro") || value.at)
		return "iscsi and iser have ro and wait=TIME";
	n->is_readonly = true;
	return NULL;
}

static const char *read_named(struct store_node *n, struct word item)
{
	const char *equals = item.length > 0 ? memchr(item.at, '=', item.length) : NULL;
	struct word name = item, value = { NULL, 0 };

	if (equals) {
		name.length = (uint32_t)(equals - item.at);
		value = (struct word){ equals + 1, item.length - name.length - 1 };
	}
	switch (n->kind) {
	case STORE_KIND_MEM:
	case STORE_KIND_FILE:
		return read_file_item(n, name, value);
	case STORE_KIND_FAULT:
		return read_fault_item(&n->fault, name, value);
	case STORE_KIND_VOLATILE:
		return read_cache_item(&n->cache, name, value);
	case STORE_KIND_MIRROR:
		return read_mirror_item(n, name, value);
	case STORE_KIND_ISCSI:
	case STORE_KIND_ISER:
		return read_iscsi_item(n, name, value);
	case STORE_KIND_RIO:
		if (!word_is(name, "device") || value.length == 0)
			return "rio has device=NAME";
		n->device = value.at;
		n->device_length = value.length;
		return NULL;
	default:
		return "this kind of device has no more to say before its members";
	}
}

/* ---- Devices -------------------------------------------------------------------------------- */

/* Does a device begin here, and of which kind? */
static bool kind_at(const char *at, enum store_kind *kind)
{
	for (int i = 0; i < STORE_KIND_COUNT; i++) {
		size_t length = strlen(kind_rules[i].name);

		if (strncmp(at, kind_rules[i].name, length) == 0 &&
		    (at[length] == ':' || at[length] == '(')) {
			*kind = (enum store_kind)i;
			return true;
		}
	}
	return false;
}

/* Takes an item; a quoted one may hold any character but quotes. */
static bool take_item(struct reader *r, struct word *item)
{
	const char *from = r->at;

	if (*from == '"') {
		for (r->at++; *r->at != '"'; r->at++) {
			if (*r->at == '\0')
				return complain(r, from, "these quotes do not end");
		}
		*item = (struct word){ from + 1, (uint32_t)(r->at - from - 1) };
		r->at++;
		if (!is_sign(*r->at))
			return complain(r, r->at, "after quotes comes a comma or a parenthesis");
		return true;
	}
	while (!is_sign(*r->at))
		r->at++;
	*item = (struct word){ from, (uint32_t)(r->at - from) };
	return true;
}

static bool read_items(struct reader *r, struct store_node *n)
{
	bool is_value = kind_rules[n->kind].value != NULL;
	enum store_kind next;

	for (;;) {
		const char *from = r->at, *why;
		struct word item;

		if (!take_item(r, &item))
			return false;
		why = is_value ? read_value(n, item) : read_named(n, item);
		if (why)
			return complain(r, from, why);
		is_value = false;
		if (*r->at != ',' || (n->parent != STORE_NO_NODE && kind_at(r->at + 1, &next)))
			return true;
		r->at++;
	}
}

static bool begin_device(struct reader *r, uint32_t parent)
{
	struct store_plan *plan = r->plan;
	struct store_node *n = &plan->nodes[plan->count];
	const char *from = r->at;
	enum store_kind kind;

	if (!kind_at(r->at, &kind))
		return complain(
			r, from,
			"a device begins with mem: file: rio: iscsi: iser: stripe: mirror( delay: "
			"fault: or volatile:");
	if (plan->count == STORE_NODES_MAX)
		return complain(r, from, "these are more than 64 devices");
	if (parent != STORE_NO_NODE &&
	    plan->nodes[parent].member_count == kind_rules[plan->nodes[parent].kind].members_max)
		return complain(r, from, "this is one member too many");
	*n = (struct store_node){
		.kind = kind,
		.at = (uint32_t)(from - r->text),
		.parent = parent,
		.wait_ns = kind == STORE_KIND_FILE ? FILE_WAIT_NS : member_wait_ns,
		.fault.seed = 1,
		.cache = { .seed = 1, .room_bytes = CACHE_ROOM_BYTES },
	};
	plan->count++;
	if (parent != STORE_NO_NODE)
		plan->nodes[parent].member_count++;
	r->at += strlen(kind_rules[kind].name);
	if (*r->at == '(')
		return !kind_rules[kind].value || complain(r, r->at, kind_rules[kind].value);
	r->at++;
	return read_items(r, n);
}

/* A device has ended: closes the devices around it. *open: the one that continues, if any. */
static bool end_devices(struct reader *r, uint32_t *open)
{
	while (*r->at == ')' && *open != STORE_NO_NODE) {
		*open = r->plan->nodes[*open].parent;
		r->at++;
	}
	if (*open == STORE_NO_NODE)
		return *r->at == '\0' || complain(r, r->at, "the device has ended before this");
	if (*r->at != ',')
		return complain(r, r->at, "a comma or a closing parenthesis is missing here");
	r->at++;
	return true;
}

static bool read_devices(struct reader *r)
{
	uint32_t open = STORE_NO_NODE, nest;

	do {
		uint32_t index = r->plan->count;
		const struct kind_rule *rule;

		if (!begin_device(r, open))
			return false;
		rule = &kind_rules[r->plan->nodes[index].kind];
		if (*r->at == '(') {
			if (rule->members_max == 0)
				return complain(r, r->at, "this kind of device has no members");
			nest = 0;
			for (uint32_t i = index; i != STORE_NO_NODE; i = r->plan->nodes[i].parent)
				nest++;
			if (nest >= STORE_NEST_MAX)
				return complain(r, r->at, "devices can be nested 8 deep");
			open = index;
			r->at++;
			continue;
		}
		if (rule->members_min > 0)
			return complain(r, r->at, "here the members follow, in parentheses");
		if (!end_devices(r, &open))
			return false;
	} while (open != STORE_NO_NODE);
	return true;
}

bool store_plan_read(struct store_plan *plan, const char *text, struct store_complaint *complaint)
{
	struct reader r = { .plan = plan, .complaint = complaint, .text = text, .at = text };

	*complaint = (struct store_complaint){ 0 };
	plan->count = 0;
	if (strlen(text) >= TEXT_MAX)
		return complain(&r, text, "a description has less than 65536 characters");
	return read_devices(&r);
}
