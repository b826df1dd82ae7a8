/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/roce.h>

#include "base/fault_plan.h"
#include "cmd/run/device_list.h"
#include "cmd/run/doctor.h"
#include "driver/observe/observe.h"

enum { DESCRIPTORS_FEW = 1024 };

static bool look_at_libraries(struct doctor *d)
{
	if (dropin_find(&d->libraries) < 0) {
		doctor_say(d, DOCTOR_STOP, "libraries",
			   "they are not all in %s (%s, %s, %s); build or install weft anew",
			   d->libraries.directory, dropin_names[0], dropin_names[1],
			   dropin_names[2]);
		return false;
	}
	doctor_say(d, DOCTOR_OK, "libraries", "%s", d->libraries.directory);
	return true;
}

/* Whether the host lets us have the port is seen by taking it, as a device that opens does. */
static void look_at_roce(struct doctor *d, const struct device_list *devices)
{
	struct weft_adapter *a;
	enum weft_reason r;
	bool is_any = false;

	for (size_t i = 0; i < devices->count; i++)
		is_any |= strncmp(devices->rows[i].name, "roce_", 5) == 0;
	if (!is_any)
		return;
	if (weft_adapter_open(NULL, &a) != WEFT_OK) /* of which others tell */
		return;
	r = weft_roce_open(a);
	(void)weft_adapter_close(a);
	if (r == WEFT_OK)
		doctor_say(d, DOCTOR_OK, "roce", "UDP port 4791 is free, or shared");
	else
		doctor_say(d, DOCTOR_STOP, "roce",
			   "no device of RoCE opens: %s: %s Or do without them: WEFT_DEVICES=iw_*",
			   weft_reason_name(r), weft_reason_text(r));
}

static void look_at_devices(struct doctor *d)
{
	static struct device_list devices;
	static char text[16384];

	if (device_list_read(&d->libraries, &devices, text, sizeof(text)) < 0) {
		doctor_say(d, DOCTOR_STOP, "devices", "%s", text);
		return;
	}
	if (devices.count == 0) {
		device_list_why_none(&d->libraries, text, sizeof(text));
		doctor_say(d, DOCTOR_STOP, "devices", "there are none: %s", text);
		return;
	}
	for (size_t i = 0; i < devices.count; i++) {
		size_t length = strlen(text);

		snprintf(text + length, sizeof(text) - length, "%s%s%s%s%s", i ? ", " : "",
			 devices.rows[i].name, devices.rows[i].gids[0] ? " (GIDs " : "",
			 devices.rows[i].gids, devices.rows[i].gids[0] ? ")" : "");
	}
	doctor_say(d, DOCTOR_OK, "devices", "%s", text);
	look_at_roce(d, &devices);
}

static void look_at_loopback(struct doctor *d)
{
	struct ifreq request = { .ifr_name = "lo" };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_up = s >= 0 && ioctl(s, SIOCGIFFLAGS, &request) == 0 &&
		     (request.ifr_flags & IFF_UP);

	if (s >= 0)
		close(s);
	if (is_up)
		doctor_say(d, DOCTOR_OK, "loopback", "lo is up");
	else
		doctor_say(
			d, DOCTOR_WARN, "loopback",
			"lo is down, so two programs on this machine do not meet at 127.0.0.1; ip "
			"link set lo up");
}

static void look_at_descriptors(struct doctor *d)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_cur >= DESCRIPTORS_FEW)
		doctor_say(d, DOCTOR_OK, "descriptors",
			   "%llu files may be open; a connection takes one",
			   (unsigned long long)limit.rlim_cur);
	else
		doctor_say(
			d, DOCTOR_WARN, "descriptors",
			"only %llu files may be open, and a connection takes one; ulimit -n %llu",
			(unsigned long long)limit.rlim_cur,
			limit.rlim_max >= DESCRIPTORS_FEW ? (unsigned long long)limit.rlim_max
							  : (unsigned long long)DESCRIPTORS_FEW);
}

/* Sandboxes forbid system calls one by one: each that weft cannot be without is tried. */
static void look_at_calls(struct doctor *d)
{
	const char *refused = NULL;
	int error = 0;
	uint8_t byte;

	for (int i = 0; i < 4 && !refused; i++) {
		static const char *const names[] = { "socket", "epoll_create1", "eventfd",
						     "getrandom" };
		int fd = -1;

		if (i == 0)
			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		else if (i == 1)
			fd = epoll_create1(EPOLL_CLOEXEC);
		else if (i == 2)
			fd = eventfd(0, EFD_CLOEXEC);
		else if (getrandom(&byte, 1, GRND_NONBLOCK) == 1)
			continue;
		if (fd < 0) {
			refused = names[i];
			error = errno;
		} else {
			close(fd);
		}
	}
	if (refused)
		doctor_say(d, DOCTOR_STOP, "rights",
			   "%s() fails: %s; is it a sandbox? Allow it there", refused,
			   strerror(error));
	else
		doctor_say(d, DOCTOR_OK, "rights",
			   "sockets are enough; no root, ptrace, memfd, kernel module or "
			   "/dev/infiniband is needed");
}

static void look_at_kernel(struct doctor *d)
{
	DIR *folder = opendir("/sys/class/infiniband");
	char names[512] = "";
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		size_t length = strlen(names);

		if (entry->d_name[0] != '.')
			snprintf(names + length, sizeof(names) - length, "%s%s", length ? ", " : "",
				 entry->d_name);
	}
	if (folder)
		closedir(folder);
	if (*names)
		doctor_say(
			d, DOCTOR_WARN, "kernel",
			"it has RDMA devices too (%s); under weft run a program sees weft's only",
			names);
	else
		doctor_say(d, DOCTOR_OK, "kernel", "it has no RDMA devices, and none is needed");
}

static void look_at_faults(struct doctor *d)
{
	const char *text = getenv("WEFT_FAULTS");
	struct fault_complaint complaint;
	struct fault_plan plan;

	if (!text || !*text)
		return;
	if (fault_plan_read(&plan, text, &complaint))
		doctor_say(d, DOCTOR_WARN, "faults",
			   "WEFT_FAULTS=%s is set: failures will be made on purpose", text);
	else
		doctor_say(d, DOCTOR_STOP, "faults",
			   "WEFT_FAULTS=%s is set, and no device opens: %.*s: %s", text,
			   (int)complaint.length, complaint.at, complaint.why);
}

static void look_at_log(struct doctor *d)
{
	const char *level = observe_wish("WEFT_LOG");

	if (level && log_level_named(level) == LOG_UNSET)
		doctor_say(d, DOCTOR_WARN, "log", "WEFT_LOG=%s: %s", level, log_level_unknown);
}

static void look_at_policy(struct doctor *d)
{
	const char *name = observe_wish("WEFT_POLICY");
	enum weft_policy policy;

	if (!name)
		return;
	if (!policy_named(name, &policy))
		doctor_say(d, DOCTOR_STOP, "policy", "WEFT_POLICY=%s: %s", name, policy_unknown);
	else if (policy == WEFT_POLICY_STRICT)
		doctor_say(
			d, DOCTOR_WARN, "policy",
			"WEFT_POLICY=strict is set: peers reach memory by windows only, and most "
			"programs have none");
}

static void look_at_profile(struct doctor *d)
{
	const char *name = observe_wish("WEFT_PROFILE");
	enum weft_profile profile;

	if (!name)
		return;
	if (!profile_named(name, &profile))
		doctor_say(d, DOCTOR_STOP, "profile", "WEFT_PROFILE=%s: %s", name, profile_unknown);
	else if (profile == WEFT_PROFILE_IO)
		doctor_say(d, DOCTOR_WARN, "profile",
			   "WEFT_PROFILE=io is set: programs have %d queue pairs, and no peer "
			   "reads or writes their memory",
			   WEFT_IO_QPS);
}

static void look_at_serving(struct doctor *d)
{
	const char *name = observe_wish("WEFT_SERVE");
	bool is_served;

	if (!name)
		return;
	if (!switch_named(name, &is_served))
		doctor_say(d, DOCTOR_WARN, "serve", "WEFT_SERVE=%s: %s", name, serve_unknown);
	else if (is_served)
		doctor_say(d, DOCTOR_WARN, "serve",
			   "WEFT_SERVE=on is set: every program keeps a processor busy");
}

static void look_at_transports(struct doctor *d)
{
	const char *crc = observe_wish("WEFT_CRC"), *near = observe_wish("WEFT_NEAR");
	enum near_wish wish = NEAR_WISH_ON;
	bool is_on = true;

	if (crc && !switch_named(crc, &is_on))
		doctor_say(d, DOCTOR_WARN, "crc", "WEFT_CRC=%s: %s", crc, crc_unknown);
	else if (!is_on)
		doctor_say(d, DOCTOR_WARN, "crc",
			   "WEFT_CRC=off is set: iWARP connections agree to no CRC if the other "
			   "end does too");
	if (near && !near_named(near, &wish))
		doctor_say(d, DOCTOR_WARN, "near", "WEFT_NEAR=%s: %s", near, near_unknown);
	else if (wish == NEAR_WISH_OFF)
		doctor_say(d, DOCTOR_WARN, "near",
			   "WEFT_NEAR=off is set: programs of this host reach each other by UDP, "
			   "which is slower");
}

void doctor_machine(struct doctor *d)
{
	if (look_at_libraries(d))
		look_at_devices(d);
	look_at_loopback(d);
	look_at_descriptors(d);
	look_at_calls(d);
	look_at_kernel(d);
	look_at_faults(d);
	look_at_log(d);
	look_at_policy(d);
	look_at_profile(d);
	look_at_serving(d);
	look_at_transports(d);
}
