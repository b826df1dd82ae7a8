/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subnet management is InfiniBand's: neither RoCE nor iWARP has it, and management datagrams of
 * other classes are not for programs here, so there is no port to open. Every name exists, so that
 * programs load, and answers what the manual pages say about a machine where no port opens.
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <stddef.h>

int umad_init(void)
{
	return 0;
}

int umad_done(void)
{
	return 0;
}

/* ---- No port opens --------------------------------------------------------------------------- */

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	(void)ca_name;
	(void)portnum;
	(void)path;
	(void)max;
	return -ENODEV;
}

int umad_open_port(const char *ca_name, int portnum)
{
	(void)ca_name;
	(void)portnum;
	return -ENODEV;
}

/* ---- What needs an open port: no number is one ---------------------------------------------- */

/* The manual pages of these two say that errno is set, too. */
static int no_port(void)
{
	errno = EINVAL;
	return -EINVAL;
}

int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	(void)portid;
	(void)agentid;
	(void)umad;
	(void)length;
	(void)timeout_ms;
	(void)retries;
	return no_port();
}

int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	(void)portid;
	(void)umad;
	(void)length;
	(void)timeout_ms;
	return no_port();
}

int umad_close_port(int portid)
{
	(void)portid;
	return -EINVAL;
}

int umad_poll(int portid, int timeout_ms)
{
	(void)portid;
	(void)timeout_ms;
	return -EINVAL;
}

int umad_get_fd(int portid)
{
	(void)portid;
	return -EINVAL;
}

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
		  long method_mask[16 / sizeof(long)])
{
	(void)portid;
	(void)mgmt_class;
	(void)mgmt_version;
	(void)rmpp_version;
	(void)method_mask;
	return -EINVAL;
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
		      long method_mask[16 / sizeof(long)])
{
	(void)portid;
	(void)mgmt_class;
	(void)rmpp_version;
	(void)oui;
	(void)method_mask;
	return -EINVAL;
}

/* This one's errors are positive. */
int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	(void)port_fd;
	(void)attr;
	(void)agent_id;
	return EINVAL;
}

int umad_unregister(int portid, int agentid)
{
	(void)portid;
	(void)agentid;
	return -EINVAL;
}
