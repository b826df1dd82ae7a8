/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of a target (lun, allow, chap) follow its target line; the others may come in any order,
 * except that `role` is first.
 */
#include "iscsi/target/config.h"

#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>

#include "store/plan.h"

static const uint64_t ms_ns = UINT64_C(1000000), second_ns = UINT64_C(1000000000);
static const uint64_t hour_ns = UINT64_C(3600000000000);
static const uint64_t memory_step = UINT64_C(1) << 20, memory_max = UINT64_C(1) << 40;
static const uint64_t memory_min = UINT64_C(32) << 20; /* two of the longest commands */
static const char bad_name[] =
	"an iSCSI name is iqn.YYYY-MM.REVERSED.DOMAIN[:WORDS], eui. or naa. with digits";

static struct iscsi_config *config_of(const struct config_reader *r)
{
	return r->of;
}

/* ---- Lines of the node ---------------------------------------------------------------------- */

static bool read_role(struct config_reader *r)
{
	if (strcmp(r->words[1], "iscsi-target") != 0)
		return config_complain(r, r->words[1], "the role of this file is iscsi-target");
	config_of(r)->has_role = true;
	return true;
}

const char *iscsi_config_wire_name(enum iscsi_config_wire wire)
{
	static const char *const names[] = { "TCP", "iSER/RoCE", "iSER/iWARP" };

	return names[wire];
}

static bool portal_add(struct config_reader *r, enum iscsi_config_wire wire, const char *at)
{
	struct iscsi_config *c = config_of(r);

	if (c->portal_count == ISCSI_CONFIG_PORTALS_MAX)
		return config_complain(r, r->words[0], "there can be 16 listen and iser lines");
	c->wires[c->portal_count] = wire;
	c->portals[c->portal_count++] = (struct config_text){ at, r->line };
	return true;
}

static bool read_listen(struct config_reader *r)
{
	return portal_add(r, ISCSI_CONFIG_TCP, r->words[1]);
}

static bool read_iser(struct config_reader *r)
{
	bool is_roce = strcmp(r->words[1], "roce") == 0;

	if (!is_roce && strcmp(r->words[1], "iwarp") != 0)
		return config_complain(r, r->words[1], "the wires of iSER are roce and iwarp");
	return portal_add(r, is_roce ? ISCSI_CONFIG_ROCE : ISCSI_CONFIG_IWARP, r->words[2]);
}

static bool read_discovery_chap(struct config_reader *r)
{
	config_of(r)->discovery_chap = (struct config_text){ r->words[1], r->line };
	return true;
}

static bool read_number(struct config_reader *r, uint32_t max, uint32_t *to, const char *why)
{
	uint64_t number;

	if (!quantity_number(config_word(r->words[1]), &number) || number == 0 || number > max)
		return config_complain(r, r->words[1], why);
	*to = (uint32_t)number;
	return true;
}

static bool read_sessions(struct config_reader *r)
{
	return read_number(r, ISCSI_CONFIG_SESSIONS_MAX, &config_of(r)->sessions_max,
			   "there can be 1 to 4096 sessions");
}

static bool read_commands(struct config_reader *r)
{
	return read_number(r, ISCSI_CONFIG_COMMANDS_MAX, &config_of(r)->commands_max,
			   "a session can have 1 to 1024 commands at a time");
}

static bool read_memory(struct config_reader *r)
{
	uint64_t *bytes = &config_of(r)->memory_bytes;

	return (quantity_size(config_word(r->words[1]), bytes) && *bytes % memory_step == 0 &&
		*bytes >= memory_min && *bytes <= memory_max) ||
	       config_complain(r, r->words[1],
			       "memory is a whole number with M or G, from 32M to 1T");
}

static bool read_time(struct config_reader *r, uint64_t min_ns, uint64_t *ns)
{
	return (quantity_time(config_word(r->words[1]), ns) && *ns >= min_ns && *ns <= hour_ns) ||
	       config_complain(r, r->words[1],
			       min_ns ? "this time is a whole number with ms or s, from 1s to 3600s"
				      : "this time is a whole number with ms or s, up to 3600s");
}

static bool read_login_timeout(struct config_reader *r)
{
	return read_time(r, second_ns, &config_of(r)->login_ns);
}

static bool read_alive(struct config_reader *r)
{
	return read_time(r, second_ns, &config_of(r)->alive_ns);
}

static bool read_end_timeout(struct config_reader *r)
{
	return read_time(r, 0, &config_of(r)->end_ns);
}

static bool read_spin(struct config_reader *r)
{
	uint64_t *ns = &config_of(r)->spin_ns;

	return (quantity_time(config_word(r->words[1]), ns) && *ns <= second_ns) ||
	       config_complain(r, r->words[1],
			       "a time to spin is a whole number with us or ms, up to 1s");
}

/* ---- Lines of a target ---------------------------------------------------------------------- */

static bool read_target(struct config_reader *r)
{
	struct iscsi_config *c = config_of(r);
	struct iscsi_config_target t = { .alias = r->count > 2 ? r->words[2] : "",
					 .line = r->line };

	if (iscsi_name_normalise(config_word(r->words[1]), &t.name) != WEFT_OK)
		return config_complain(r, r->words[1], bad_name);
	for (uint32_t i = 0; i < c->target_count; i++) {
		if (strcmp(c->targets[i].name.text, t.name.text) == 0)
			return config_complain(r, r->words[1], "this name is another target's");
	}
	if (!iscsi_is_local_name(config_word(t.alias)))
		return config_complain(r, r->words[2], "an alias is UTF-8 of at most 255 bytes");
	if (c->target_count == ISCSI_CONFIG_TARGETS_MAX)
		return config_complain(r, r->words[0], "there can be 64 targets");
	c->targets[c->target_count++] = t;
	return true;
}

/* The target that a line belongs to; false: it comes before all of them. */
static bool find_target(struct config_reader *r, uint16_t *target)
{
	struct iscsi_config *c = config_of(r);

	if (c->target_count == 0)
		return config_complain(r, r->words[0],
				       "this line belongs to a target: it follows target NAME");
	*target = (uint16_t)(c->target_count - 1);
	return true;
}

/* Takes "readonly" off the text of a device. */
static bool take_readonly(const char **text)
{
	static const char word[] = "readonly";
	const char *at = *text + sizeof(word) - 1;

	if (strncmp(*text, word, sizeof(word) - 1) != 0 || (*at != ' ' && *at != '\t'))
		return false;
	while (*at == ' ' || *at == '\t')
		at++;
	*text = at;
	return true;
}

static bool read_lun(struct config_reader *r)
{
	struct iscsi_config *c = config_of(r);
	struct iscsi_config_lun lun = { .text = r->words[2], .line = r->line };
	struct store_complaint complaint;
	struct store_plan plan;
	uint64_t number;

	if (!find_target(r, &lun.target))
		return false;
	if (!quantity_number(config_word(r->words[1]), &number) || number > ISCSI_CONFIG_LUN_MAX)
		return config_complain(r, r->words[1], "a LUN is 0 to 255");
	lun.lun = (uint16_t)number;
	lun.is_readonly = take_readonly(&lun.text);
	lun.column = (uint32_t)(lun.text - r->begin) + 1;
	for (uint32_t i = 0; i < c->lun_count; i++) {
		if (c->luns[i].target == lun.target && c->luns[i].lun == lun.lun)
			return config_complain(r, r->words[1], "this target has that LUN already");
	}
	if (!store_plan_read(&plan, lun.text, &complaint))
		return config_complain(r, lun.text + complaint.at, complaint.why);
	if (c->lun_count == ISCSI_CONFIG_LUNS_MAX)
		return config_complain(r, r->words[0], "there can be 256 LUNs in all");
	c->luns[c->lun_count++] = lun;
	return true;
}

static bool read_allow(struct config_reader *r)
{
	struct iscsi_config *c = config_of(r);
	struct iscsi_config_rule rule = { 0 };

	if (!find_target(r, &rule.target))
		return false;
	if (strcmp(r->words[1], "any") != 0 &&
	    iscsi_name_normalise(config_word(r->words[1]), &rule.initiator) != WEFT_OK)
		return config_complain(r, r->words[1], bad_name);
	if (r->count > 2)
		rule.address = (struct config_text){ r->words[2], r->line };
	if (c->rule_count == ISCSI_CONFIG_RULES_MAX)
		return config_complain(r, r->words[0], "there can be 1024 allow lines");
	c->rules[c->rule_count++] = rule;
	c->targets[rule.target].has_rules = true;
	return true;
}

static bool read_chap(struct config_reader *r)
{
	struct iscsi_config *c = config_of(r);
	uint16_t target = 0;

	if (!find_target(r, &target))
		return false;
	if (c->targets[target].chap.is)
		return config_complain(r, r->words[0], "this target has a chap line already");
	c->targets[target].chap = (struct config_text){ r->words[1], r->line };
	return true;
}

static const struct config_keyword keywords[] = {
	{ "role", 0, 2, 2, true, false, read_role, "a line is: role iscsi-target" },
	{ "listen", 0, 2, 2, false, false, read_listen, "a line is: listen ADDRESS:PORT" },
	{ "iser", 0, 3, 3, false, false, read_iser, "a line is: iser roce|iwarp ADDRESS:PORT" },
	{ "discovery-chap", 0, 2, 2, true, true, read_discovery_chap,
	  "a line is: discovery-chap FILE" },
	{ "sessions", 0, 2, 2, true, false, read_sessions, "a line is: sessions NUMBER" },
	{ "commands", 0, 2, 2, true, false, read_commands, "a line is: commands NUMBER" },
	{ "memory", 0, 2, 2, true, false, read_memory, "a line is: memory BYTES" },
	{ "login-timeout", 0, 2, 2, true, false, read_login_timeout,
	  "a line is: login-timeout TIME" },
	{ "alive", 0, 2, 2, true, false, read_alive, "a line is: alive TIME" },
	{ "end-timeout", 0, 2, 2, true, false, read_end_timeout, "a line is: end-timeout TIME" },
	{ "spin", 0, 2, 2, true, false, read_spin, "a line is: spin TIME" },
	{ "target", 0, 2, 3, false, true, read_target, "a line is: target NAME [ALIAS]" },
	{ "lun", 0, 3, 3, false, true, read_lun, "a line is: lun NUMBER [readonly] DEVICE" },
	{ "allow", 0, 2, 3, false, false, read_allow,
	  "a line is: allow INITIATOR [ADDRESS[/BITS]]" },
	{ "chap", 0, 2, 2, false, true, read_chap, "a line is: chap FILE" },
};

static bool allows(struct config_reader *r, const struct config_keyword *k)
{
	return config_of(r)->has_role || k->read == read_role ||
	       config_complain(r, r->words[0], "the first line is: role iscsi-target");
}

static bool finish(struct config_reader *r)
{
	struct iscsi_config *c = config_of(r);

	if (!c->has_role)
		return config_complain_line(r, r->line, "the first line is: role iscsi-target");
	if (c->target_count == 0)
		return config_complain_line(r, r->line, "a line is missing: target NAME");
	for (uint32_t i = 0; i < c->target_count; i++) {
		uint32_t lun = 0;

		while (lun < c->lun_count && c->luns[lun].target != i)
			lun++;
		if (lun == c->lun_count)
			return config_complain_line(r, c->targets[i].line,
						    "this target has no line: lun NUMBER DEVICE");
	}
	if (c->portal_count == 0)
		c->portals[c->portal_count++] = (struct config_text){ "127.0.0.1:3260", 0 };
	return true;
}

bool iscsi_config_read(const char *text, size_t length, struct iscsi_config **config,
		       struct config_complaint *complaint)
{
	struct iscsi_config *c = config_copy(offsetof(struct iscsi_config, text), text, length,
					     complaint);
	struct config_reader r = { .of = c,
				   .keywords = keywords,
				   .keyword_count = sizeof(keywords) / sizeof(keywords[0]),
				   .allows = allows,
				   .complaint = complaint };

	if (!c)
		return false;
	c->sessions_max = 64;
	c->commands_max = 128;
	c->memory_bytes = UINT64_C(64) << 20;
	c->login_ns = 15 * second_ns;
	c->alive_ns = 30 * second_ns;
	c->end_ns = 3000 * ms_ns;
	c->spin_ns = ms_ns / 20;
	if (!config_lines_read(&r, c->text, length) || !finish(&r)) {
		free(c);
		return false;
	}
	*config = c;
	return true;
}

void iscsi_config_destroy(struct iscsi_config *c)
{
	free(c);
}

/* ---- Secrets -------------------------------------------------------------------------------- */

static bool read_account(struct config_reader *r, struct chap_account *account)
{
	*account = (struct chap_account){ config_word(r->words[1]), config_word(r->words[2]) };
	if (account->name.length > CHAP_NAME_MAX)
		return config_complain(r, r->words[1], "a name has at most 255 bytes");
	if (account->secret.length < CHAP_SECRET_MIN || account->secret.length > CHAP_SECRET_MAX)
		return config_complain(r, r->words[2], "a secret has 12 to 255 bytes");
	return true;
}

static bool read_initiator_account(struct config_reader *r)
{
	struct iscsi_secrets *s = r->of;

	if (s->initiator_count == ISCSI_CONFIG_ACCOUNTS_MAX)
		return config_complain(r, r->words[0], "there can be 256 initiators");
	for (uint32_t i = 0; i < s->initiator_count; i++) {
		if (word_is(s->initiators[i].name, r->words[1]))
			return config_complain(r, r->words[1], "this name was said before");
	}
	return read_account(r, &s->initiators[s->initiator_count++]);
}

static bool read_target_account(struct config_reader *r)
{
	return read_account(r, &((struct iscsi_secrets *)r->of)->self);
}

static const struct config_keyword account_keywords[] = {
	{ "initiator", 0, 3, 3, false, true, read_initiator_account,
	  "a line is: initiator NAME SECRET" },
	{ "target", 0, 3, 3, true, true, read_target_account, "a line is: target NAME SECRET" },
};

/* RFC 7143 section 9.2.1: what one end sends must not serve to answer the other's challenge. */
static bool check_accounts(struct config_reader *r)
{
	const struct iscsi_secrets *s = r->of;

	if (s->initiator_count == 0)
		return config_complain_line(r, r->line, "a line is missing: initiator NAME SECRET");
	for (uint32_t i = 0; i < s->initiator_count && s->self.name.length > 0; i++) {
		if (word_is(s->self.secret, s->initiators[i].secret.at))
			return config_complain_line(
				r, r->line, "target and initiator need secrets that differ");
	}
	return true;
}

bool iscsi_secrets_read(const char *text, size_t length, struct iscsi_secrets **secrets,
			struct config_complaint *complaint)
{
	struct iscsi_secrets *s = config_copy(offsetof(struct iscsi_secrets, text), text, length,
					      complaint);
	struct config_reader r = { .of = s,
				   .keywords = account_keywords,
				   .keyword_count = sizeof(account_keywords) /
						    sizeof(account_keywords[0]),
				   .complaint = complaint };

	if (!s)
		return false;
	s->bytes = length;
	if (!config_lines_read(&r, s->text, length) || !check_accounts(&r)) {
		iscsi_secrets_destroy(s);
		return false;
	}
	*secrets = s;
	return true;
}

void iscsi_secrets_destroy(struct iscsi_secrets *s)
{
	sodium_memzero(s, offsetof(struct iscsi_secrets, text) + s->bytes);
	free(s);
}
