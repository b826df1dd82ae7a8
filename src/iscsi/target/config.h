/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file of an iSCSI target node (docs/iscsi.md), and files with the secrets of
 * CHAP: parses text into structs. Addresses, paths and devices stay texts, which
 * roles/iscsi_config.h resolves.
 */
#pragma once

#include "base/config_lines.h"
#include "iscsi/login/chap.h"
#include "iscsi/login/text.h"

enum {
	ISCSI_CONFIG_PORTALS_MAX = 16,
	ISCSI_CONFIG_TARGETS_MAX = 64,
	ISCSI_CONFIG_LUNS_MAX = 256,
	ISCSI_CONFIG_LUN_MAX = 255, /* what every initiator can address */
	ISCSI_CONFIG_RULES_MAX = 1024,
	ISCSI_CONFIG_SESSIONS_MAX = 4096,
	ISCSI_CONFIG_COMMANDS_MAX = 1024,
	ISCSI_CONFIG_ACCOUNTS_MAX = 256,
};

/* A logical unit of a target; its device is as in docs/store.md. */
struct iscsi_config_lun {
	uint16_t target; /* index */
	uint16_t lun;
	bool is_readonly;
	const char *text;
	uint32_t line, column; /* column: where the device's text begins */
};

/* An "allow" line: who may log in to a target. */
struct iscsi_config_rule {
	uint16_t target;
	struct iscsi_name initiator; /* of length 0: any */
	struct config_text address;  /* ADDRESS or ADDRESS/BITS; NULL: any */
};

struct iscsi_config_target {
	struct iscsi_name name;
	const char *alias;	 /* "": none */
	struct config_text chap; /* path of its secrets; NULL: no authentication */
	bool has_rules;		 /* else only initiators on this host may log in */
	uint32_t line;
};

/* By TCP, or by iSER on one of the two wires of RDMA. */
enum iscsi_config_wire { ISCSI_CONFIG_TCP, ISCSI_CONFIG_ROCE, ISCSI_CONFIG_IWARP };

/* For people: "TCP", "iSER/RoCE" or "iSER/iWARP". */
const char *iscsi_config_wire_name(enum iscsi_config_wire wire);

/* All texts point into the struct itself. */
struct iscsi_config {
	struct config_text portals[ISCSI_CONFIG_PORTALS_MAX]; /* ADDRESS:PORT */
	enum iscsi_config_wire wires[ISCSI_CONFIG_PORTALS_MAX];
	uint32_t portal_count; /* at least 1 */
	struct iscsi_config_target targets[ISCSI_CONFIG_TARGETS_MAX];
	uint32_t target_count; /* at least 1 */
	struct iscsi_config_lun luns[ISCSI_CONFIG_LUNS_MAX];
	uint32_t lun_count;
	struct iscsi_config_rule rules[ISCSI_CONFIG_RULES_MAX];
	uint32_t rule_count;
	struct config_text discovery_chap; /* as of a target */
	uint32_t sessions_max;
	uint32_t commands_max; /* outstanding at a time, per session */
	uint64_t memory_bytes; /* for data of commands, of all sessions */
	uint64_t login_ns;     /* that a login may take */
	uint64_t alive_ns;     /* an initiator that is silent this long counts as gone */
	uint64_t end_ns;       /* that initiators have to log out when the node ends */
	uint64_t spin_ns;      /* busy-polls this long before sleeping */
	bool has_role;
	char text[];
};

/* Copies the text. False: the file is bad, *complaint says why, and *config is not set. */
bool iscsi_config_read(const char *text, size_t length, struct iscsi_config **config,
		       struct config_complaint *complaint);
void iscsi_config_destroy(struct iscsi_config *c);

/* A file of secrets: accounts of initiators, and perhaps that of the target (mutual CHAP). */
struct iscsi_secrets {
	struct chap_account initiators[ISCSI_CONFIG_ACCOUNTS_MAX];
	uint32_t initiator_count; /* at least 1 */
	struct chap_account self; /* name of length 0: the target cannot prove itself */
	size_t bytes;
	char text[];
};

bool iscsi_secrets_read(const char *text, size_t length, struct iscsi_secrets **secrets,
			struct config_complaint *complaint);

/* Wipes the secrets. */
void iscsi_secrets_destroy(struct iscsi_secrets *s);
