/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/card_config.h"

#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>

#include "driver/sys/fabric_address.h"
#include "lan/plan.h"
#include "rio/config_words.h"
#include "rio/names.h"
#include "roles/key_file.h"

static const uint64_t second_ns = UINT64_C(1000000000);

static struct card_config *config_of(const struct config_reader *r)
{
	return r->of;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static bool read_role(struct config_reader *r)
{
	enum rio_role *role = &config_of(r)->role;

	if (strcmp(r->words[1], rio_role_name(RIO_CARD_UNIT)) == 0)
		*role = RIO_CARD_UNIT;
	else if (strcmp(r->words[1], rio_role_name(RIO_CARD_HOST)) == 0)
		*role = RIO_CARD_HOST;
	else
		return config_complain(r, r->words[1], "the roles are card-unit and card-host");
	return true;
}

static bool read_self(struct config_reader *r)
{
	return rio_config_self(r, &config_of(r)->self);
}

static bool read_key(struct config_reader *r)
{
	config_of(r)->key = (struct config_text){ r->words[1], r->line };
	return true;
}

static bool read_listen(struct config_reader *r)
{
	config_of(r)->listen = (struct config_text){ r->words[1], r->line };
	return true;
}

/* A port is opened later, but its text is judged here. */
static bool read_port(struct config_reader *r)
{
	struct lan_plan plan;
	const char *why;

	config_of(r)->port = (struct config_text){ r->words[1], r->line };
	return lan_plan_parse(r->words[1], &plan, &why) || config_complain(r, r->words[1], why);
}

static bool read_wire(struct config_reader *r)
{
	bool is_roce = strcmp(r->words[1], "roce") == 0;

	config_of(r)->wire = is_roce ? RDMA_ROCE : RDMA_IWARP;
	return is_roce || strcmp(r->words[1], "iwarp") == 0 ||
	       config_complain(r, r->words[1], "the wires are roce and iwarp");
}

static bool read_mode(struct config_reader *r)
{
	bool is_send = strcmp(r->words[1], "send") == 0;

	config_of(r)->mode = is_send ? PUSH_MODE_SEND : PUSH_MODE_RDMA;
	return is_send || strcmp(r->words[1], "rdma") == 0 ||
	       config_complain(r, r->words[1], "the modes are send and rdma");
}

static bool read_mtu(struct config_reader *r)
{
	uint64_t number;

	if (!quantity_number(config_word(r->words[1]), &number) || number < PUSH_MTU_MIN ||
	    number > PUSH_MTU_MAX)
		return config_complain(r, r->words[1], "an MTU is 68 to 9000 bytes");
	config_of(r)->mtu = (uint16_t)number;
	return true;
}

static bool read_offload(struct config_reader *r)
{
	config_of(r)->is_plain = strcmp(r->words[1], "off") == 0;
	return config_of(r)->is_plain || strcmp(r->words[1], "on") == 0 ||
	       config_complain(r, r->words[1], "offload is on or off");
}

static bool read_pull(struct config_reader *r)
{
	config_of(r)->is_pull = strcmp(r->words[1], "on") == 0;
	return config_of(r)->is_pull || strcmp(r->words[1], "off") == 0 ||
	       config_complain(r, r->words[1], "pull is on or off");
}

static bool read_inline(struct config_reader *r)
{
	uint64_t number;

	if (!quantity_number(config_word(r->words[1]), &number) || number > CARD_INLINE_MAX)
		return config_complain(r, r->words[1], "packets of up to 1024 bytes go by Sends");
	config_of(r)->inline_bytes = (uint32_t)number;
	return true;
}

static bool read_spin(struct config_reader *r)
{
	config_of(r)->has_spin = true;
	return rio_config_spin(r, &config_of(r)->spin_ns);
}

static bool read_alive(struct config_reader *r)
{
	return rio_config_alive(r, &config_of(r)->alive_ns);
}

/* NULL, or the text of the conflict with an earlier peer. */
static const char *find_twin(const struct card_config *c, const struct card_peer *peer,
			     const struct rio_known *known)
{
	for (uint32_t i = 0; i < c->peer_count; i++) {
		const struct card_peer *other = &c->peers[i];

		if (strcmp(other->name, peer->name) == 0)
			return "another host has this name";
		if (platform_is_same(c->known[i].platform, known->platform))
			return "another host has this platform identifier";
		if (memcmp(c->known[i].key, known->key, RIO_KEY_BYTES) == 0)
			return "another host has this key; each needs its own";
		if (peer->has_mac && other->has_mac &&
		    memcmp(other->mac, peer->mac, PUSH_MAC_BYTES) == 0)
			return "another host has this MAC address";
	}
	return NULL;
}

static bool read_peer(struct config_reader *r, enum rio_role role)
{
	struct card_config *c = config_of(r);
	struct card_peer peer = { .name = r->words[1], .line = r->line };
	struct rio_known known = { .role = role };
	const char *why;

	if (!rio_config_known(r, &known))
		return false;
	if (role == RIO_CARD_UNIT) {
		peer.address = r->words[4];
	} else if (r->count > 4) {
		peer.has_mac = lan_mac_parse(r->words[4], (uint32_t)strlen(r->words[4]), peer.mac);
		if (!peer.has_mac)
			return config_complain(
				r, r->words[4],
				"a MAC address is that of one station: 02:00:00:00:00:01");
	}
	why = find_twin(c, &peer, &known);
	if (why)
		return config_complain(r, r->words[0], why);
	if (c->peer_count == CARD_PEERS_MAX)
		return config_complain(r, r->words[0], "there can be 64 hosts");
	c->known[c->peer_count] = known;
	c->peers[c->peer_count++] = peer;
	return true;
}

static bool read_unit(struct config_reader *r)
{
	return read_peer(r, RIO_CARD_UNIT);
}

static bool read_host(struct config_reader *r)
{
	return read_peer(r, RIO_CARD_HOST);
}

/* ---- The file ------------------------------------------------------------------------------- */

enum { BY_UNIT = 1 << RIO_CARD_UNIT, BY_HOST = 1 << RIO_CARD_HOST, BY_BOTH = BY_UNIT | BY_HOST };

static const struct config_keyword keywords[] = {
	{ "role", BY_BOTH, 2, 2, true, false, read_role, "a line is: role ROLE" },
	{ "self", BY_BOTH, 2, 2, true, false, read_self, "a line is: self PLATFORM" },
	{ "key", BY_BOTH, 2, 2, true, true, read_key, "a line is: key FILE" },
	{ "wire", BY_BOTH, 2, 2, true, false, read_wire, "a line is: wire roce|iwarp" },
	{ "mode", BY_BOTH, 2, 2, true, false, read_mode, "a line is: mode send|rdma" },
	{ "mtu", BY_BOTH, 2, 2, true, false, read_mtu, "a line is: mtu BYTES" },
	{ "offload", BY_BOTH, 2, 2, true, false, read_offload, "a line is: offload on|off" },
	{ "pull", BY_BOTH, 2, 2, true, false, read_pull, "a line is: pull on|off" },
	{ "inline", BY_BOTH, 2, 2, true, false, read_inline, "a line is: inline BYTES" },
	{ "spin", BY_BOTH, 2, 2, true, false, read_spin, "a line is: spin TIME" },
	{ "alive", BY_BOTH, 2, 2, true, false, read_alive, "a line is: alive TIME" },
	{ "listen", BY_UNIT, 2, 2, true, false, read_listen, "a line is: listen ADDRESS:PORT" },
	{ "lan", BY_UNIT, 2, 2, true, true, read_port, "a line is: lan PORT" },
	{ "host", BY_UNIT, 4, 5, false, false, read_host,
	  "a line is: host NAME PLATFORM KEY [MAC]" },
	{ "card", BY_HOST, 2, 2, true, true, read_port, "a line is: card PORT" },
	{ "unit", BY_HOST, 5, 5, true, false, read_unit,
	  "a line is: unit NAME PLATFORM KEY ADDRESS:PORT" },
};

enum { KEYWORDS = sizeof(keywords) / sizeof(keywords[0]) };

static bool allows(struct config_reader *r, const struct config_keyword *k)
{
	enum rio_role role = config_of(r)->role;

	if (role == 0 && k->read != read_role)
		return config_complain(r, r->words[0],
				       "the first line is the role: role card-host");
	if (role != 0 && (k->kinds & 1U << role) == 0)
		return config_complain(r, r->words[0], "this is not for the file of this role");
	return true;
}

static bool finish(struct config_reader *r)
{
	struct card_config *c = config_of(r);
	bool is_unit = c->role == RIO_CARD_UNIT;

	if (c->role == 0)
		return config_complain_line(r, r->line,
					    "the first line is the role: role card-host");
	if (platform_is_none(c->self))
		c->self = is_unit ? (struct platform){ 2, 1 } : (struct platform){ 3, 1 };
	if (!c->key.is)
		c->key.is = is_unit ? "unit.key" : "host.key";
	if (is_unit && !c->listen.is)
		c->listen.is = ":7480";
	if (!c->port.is)
		return config_complain_line(r, r->line,
					    is_unit ? "a line is missing: lan PORT"
						    : "a line is missing: card PORT");
	if (!is_unit && c->peer_count == 0)
		return config_complain_line(
			r, r->line, "a line is missing: unit NAME PLATFORM KEY ADDRESS:PORT");
	if (c->mode == PUSH_MODE_SEND && c->wire == RDMA_IWARP)
		return config_complain_line(r, r->line,
					    "mode send is for the wire roce: iWARP has no "
					    "unacknowledged connections");
	if (c->mode == PUSH_MODE_SEND && c->inline_bytes > 0)
		return config_complain_line(
			r, r->line,
			"inline is for the mode rdma: in mode send all frames are Sends");
	if (c->inline_bytes > 0 && c->wire == RDMA_IWARP)
		return config_complain_line(r, r->line,
					    "inline is for the wire roce: iWARP does not wait "
					    "for a receiver without buffers");
	for (uint32_t i = 0; i < c->peer_count; i++) {
		if (platform_is_same(c->known[i].platform, c->self))
			return config_complain_line(r, c->peers[i].line,
						    "this platform identifier is that of self");
	}
	return true;
}

bool card_config_read(const char *text, size_t length, struct card_config **config,
		      struct config_complaint *complaint)
{
	struct card_config *c = config_copy(offsetof(struct card_config, text), text, length,
					    complaint);
	struct config_reader r = { .of = c,
				   .keywords = keywords,
				   .keyword_count = KEYWORDS,
				   .allows = allows,
				   .complaint = complaint };

	if (!c)
		return false;
	c->wire = RDMA_ROCE;
	c->mode = PUSH_MODE_RDMA;
	c->mtu = 1500;
	c->alive_ns = 10 * second_ns;
	if (!config_lines_read(&r, c->text, length) || !finish(&r)) {
		free(c);
		return false;
	}
	*config = c;
	return true;
}

void card_config_destroy(struct card_config *c)
{
	free(c);
}

/* ---- What it names -------------------------------------------------------------------------- */

static bool parse(const char *text, size_t length, void *config, struct config_complaint *complaint)
{
	return card_config_read(text, length, config, complaint);
}

static bool read_identity(const char *path, struct card_file *f, char why[CONFIG_FILE_WHY])
{
	const struct card_config *c = f->config;
	char key_why[KEY_FILE_WHY] = "there is no memory";
	char *key_path = config_file_beside(path, c->key.is);
	bool is_read = key_path && key_file_read(key_path, &f->self, key_why);

	free(key_path);
	if (!is_read && c->key.line > 0)
		return config_refuse(why, "%s:%u: %s", path, c->key.line, key_why);
	if (!is_read)
		return config_refuse(why, "%s: %s", path, key_why);
	f->self.platform = c->self;
	f->self.role = c->role;
	for (uint32_t i = 0; i < c->peer_count; i++) {
		if (memcmp(c->known[i].key, f->self.key, RIO_KEY_BYTES) == 0)
			return config_refuse(why, "%s:%u: this is the key of self", path,
					     c->peers[i].line);
	}
	return true;
}

static bool read_address(const char *path, struct card_file *f, char why[CONFIG_FILE_WHY])
{
	const struct card_config *c = f->config;
	bool is_unit = c->role == RIO_CARD_UNIT;
	const char *text = is_unit ? c->listen.is : c->peers[0].address;

	return (fabric_address_parse(text, &f->address) == WEFT_OK &&
		(is_unit || (f->address.family != 0 && f->address.port != 0))) ||
	       config_refuse(why,
			     "%s:%u: an address is 192.0.2.1:7480 or [2001:db8::1]:7480, "
			     "at a node of a fabric also NODE:7480, and to listen :7480",
			     path, is_unit ? c->listen.line : c->peers[0].line);
}

bool card_file_open(const char *path, enum rio_role role, struct card_file *f,
		    char why[CONFIG_FILE_WHY])
{
	*f = (struct card_file){ 0 };
	if (!config_file_parse(path, parse, &f->config, why))
		return false;
	if ((f->config->role == role ||
	     config_refuse(why, "%s: this is the file of another role: %s, not %s", path,
			   rio_role_name(f->config->role), rio_role_name(role))) &&
	    read_identity(path, f, why) && read_address(path, f, why))
		return true;
	card_file_close(f);
	return false;
}

void card_file_close(struct card_file *f)
{
	sodium_memzero(&f->self, sizeof(f->self));
	card_config_destroy(f->config);
	f->config = NULL;
}
