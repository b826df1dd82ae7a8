/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw datagrams by a TUN interface: the other end is the host's own IPv6. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/roce.h>

#include "live/verbs_fixture.h"
#include "own_network.h"

enum { HEADER = 40, UDP_HEADER = 8, UDP = 17, ECHO_PORT = 7, FRAME_MAX = 1500, RECVS = 4 };

static const struct weft_address weft_at = { .family = 6, .ip = { 0xfd, [15] = 2 } };
static const struct weft_raw_options udp_to_us = {
	.next_header = UDP, .to = { .family = 6, .ip = { 0xfd, [15] = 2 } }
};
static const char text[] = "as it stands";

/* NULL, or why there is no network of its own where interfaces can be made. */
static const char *tun_network_enter(void)
{
	const char *why_not = own_network_enter();

	if (!why_not && access("/dev/net/tun", R_OK | W_OK) != 0)
		why_not = "this host has no TUN interfaces";
	return why_not;
}

static struct sockaddr_in6 host_at(uint8_t last, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	a.sin6_addr.s6_addr[0] = 0xfd;
	a.sin6_addr.s6_addr[15] = last;
	return a;
}

static void set_up(int fd, const char *interface, bool is_up)
{
	struct ifreq r = { 0 };

	strncpy(r.ifr_name, interface, sizeof(r.ifr_name) - 1);
	REQUIRE(ioctl(fd, SIOCGIFFLAGS, &r) == 0);
	if (is_up)
		r.ifr_flags |= IFF_UP;
	else
		r.ifr_flags &= ~IFF_UP;
	REQUIRE(ioctl(fd, SIOCSIFFLAGS, &r) == 0);
}

/* The host has fd00::1 there, and sends to all of fd00::/64 by it. A socket of UDP at that. */
static int host_socket(const char *interface)
{
	struct sockaddr_in6 at = host_at(1, 0);
	struct in6_ifreq r = { .ifr6_addr = at.sin6_addr,
			       .ifr6_prefixlen = 64,
			       .ifr6_ifindex = (int)if_nametoindex(interface) };
	uint64_t since = thread_now_ns();
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	REQUIRE(fd >= 0);
	set_up(fd, interface, true);
	REQUIRE(ioctl(fd, SIOCSIFADDR, &r) == 0);
	/* The host first probes whether another host has the address. */
	while (bind(fd, (const struct sockaddr *)&at, sizeof(at)) != 0)
		REQUIRE(errno == EADDRNOTAVAIL && thread_now_ns() - since < PATIENCE_NS);
	return fd;
}

/* As ip link del does. */
static void delete_interface(const char *interface)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
	} ask = { .head = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = RTM_DELLINK,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		  .link.ifi_index = (int)if_nametoindex(interface) };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr end;
	} answer = { 0 };
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	REQUIRE(fd >= 0);
	REQUIRE(send(fd, &ask, sizeof(ask), 0) == sizeof(ask));
	REQUIRE(recv(fd, &answer, sizeof(answer), 0) > 0);
	EXPECT_EQ(answer.head.nlmsg_type, NLMSG_ERROR);
	EXPECT_EQ(answer.end.error, 0);
	close(fd);
}

static void raw_node_open(struct weft_adapter *a, struct node *n, enum weft_qp_service service)
{
	struct weft_region_options region = { .length = NODE_BYTES,
					      .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	struct weft_qp_options qp = { .service = service };
	const struct weft_roce_attr r = { .path.mtu_bytes = 4096 };

	n->memory = calloc(1, NODE_BYTES);
	REQUIRE(n->memory);
	region.addr = (uintptr_t)n->memory;
	MUST(weft_pd_create(a, NULL, &n->pd));
	MUST(weft_cq_create(a, NULL, &n->cq));
	MUST(weft_region_register(n->pd, &region, &n->tag));
	qp.send_cq = qp.recv_cq = n->cq;
	MUST(weft_qp_create(n->pd, &qp, &n->qp));
	if (service == WEFT_UD) {
		MUST(weft_qp_to_rtr(n->qp, &r));
		MUST(weft_qp_to_rts(n->qp, &r));
	}
}

static void receive_at(struct node *n, uint64_t slot)
{
	const struct weft_sge s = node_seg(n, slot * FRAME_MAX, FRAME_MAX);
	const struct weft_recv_wr wr = { .id = slot, .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(n->qp, &wr, 1, NULL));
}

static void send_frame(struct node *n, uint64_t slot, uint32_t length)
{
	const struct weft_sge s = node_seg(n, slot * FRAME_MAX, length);
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND,
				   .id = slot,
				   .flags = WEFT_SIGNALLED,
				   .sges = &s,
				   .sge_count = 1 };

	MUST(weft_qp_post_send(n->qp, &wr, 1, NULL));
}

static void swap(uint8_t *a, uint8_t *b, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		uint8_t was = a[i];

		a[i] = b[i];
		b[i] = was;
	}
}

/* Back to where it came from. The checksum is of both addresses and ports, in any order. */
static void turn_round(uint8_t *frame)
{
	swap(frame + 8, frame + 24, 16);
	swap(frame + HEADER, frame + HEADER + 2, 2);
}

static void echo_once(int host, struct node *n)
{
	const struct sockaddr_in6 to = host_at(2, ECHO_PORT);
	const uint32_t length = HEADER + UDP_HEADER + sizeof(text);
	struct weft_completion c;
	char back[64];
	uint8_t *frame;

	REQUIRE(sendto(host, text, sizeof(text), 0, (const struct sockaddr *)&to, sizeof(to)) ==
		sizeof(text));
	REQUIRE(node_take(n->cq, &c));
	EXPECT_EQ(c.opcode, WEFT_OP_RECV);
	EXPECT_EQ(c.byte_count, length);
	frame = n->memory + c.id * FRAME_MAX;
	EXPECT_EQ(frame[0] >> 4, 6);
	EXPECT_EQ(frame[6], UDP);
	EXPECT_MEM(frame + 24, weft_at.ip, 16);
	EXPECT_EQ(frame[HEADER + 3], ECHO_PORT);
	EXPECT_MEM(frame + HEADER + UDP_HEADER, text, sizeof(text));
	turn_round(frame);
	send_frame(n, c.id, length);
	REQUIRE(node_take(n->cq, &c));
	REQUIRE(recv(host, back, sizeof(back), 0) == sizeof(text));
	EXPECT_MEM(back, text, sizeof(text));
}

TEST(test_raw_01_raw_02_frames_of_the_host_come_and_go_as_they_are)
{
	const char *why_not = tun_network_enter();
	struct weft_adapter *a;
	struct node n;
	int host;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_raw_open(a, "weft0"));
	raw_node_open(a, &n, WEFT_UD);
	MUST(weft_qp_to_raw(n.qp, &udp_to_us));
	for (uint64_t i = 0; i < RECVS; i++)
		receive_at(&n, i);
	host = host_socket("weft0");
	for (int i = 0; i < RECVS; i++)
		echo_once(host, &n);
	close(host);
	node_close(&n, NULL);
	MUST(weft_adapter_close(a));
	EXPECT_EQ(if_nametoindex("weft0"), 0); /* it was the adapter's */
}

/* The next frame of a queue pair: from the host, with this next header, to this address. */
static void expect_frame_at(struct node *n, uint8_t next_header, uint8_t to, uint32_t skip)
{
	const struct sockaddr_in6 at = host_at(to, 0), from = host_at(1, 0);
	struct weft_completion c;
	const uint8_t *frame;

	REQUIRE(node_take(n->cq, &c));
	EXPECT_EQ(c.qp_number, weft_qp_number(n->qp));
	EXPECT_EQ(c.byte_count, HEADER + skip + sizeof(text));
	frame = n->memory + c.id * FRAME_MAX;
	EXPECT_EQ(frame[6], next_header);
	EXPECT_MEM(frame + 8, from.sin6_addr.s6_addr, 16);
	EXPECT_MEM(frame + 24, at.sin6_addr.s6_addr, 16);
	EXPECT_MEM(frame + HEADER + skip, text, sizeof(text));
	receive_at(n, c.id);
}

static void send_to(int host, uint8_t to, uint16_t port)
{
	const struct sockaddr_in6 at = host_at(to, port);

	REQUIRE(sendto(host, text, sizeof(text), 0, (const struct sockaddr *)&at, sizeof(at)) ==
		sizeof(text));
}

/*
 * TRN-S3: frames that the host's IPv6 has made reach the queue pair that has asked for their next
 * header, and of one next header the one that has asked for their destination.
 */
TEST(test_trn_s3_raw_03_frames_of_the_host_by_next_header_and_destination)
{
	enum { OTHER = 253, QPS = 3 }; /* RFC 3692: for experiments */
	static const struct weft_raw_options asks[QPS] = {
		{ .next_header = UDP, .to = { .family = 6, .ip = { 0xfd, [15] = 2 } } },
		{ .next_header = UDP, .to = { .family = 6, .ip = { 0xfd, [15] = 3 } } },
		{ .next_header = OTHER },
	};
	const char *why_not = tun_network_enter();
	struct weft_adapter *a;
	struct node n[QPS];
	int udp, other;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_raw_open(a, "weft0"));
	for (int i = 0; i < QPS; i++) {
		raw_node_open(a, &n[i], WEFT_UD);
		MUST(weft_qp_to_raw(n[i].qp, &asks[i]));
		for (uint64_t k = 0; k < RECVS; k++)
			receive_at(&n[i], k);
	}
	udp = host_socket("weft0");
	other = socket(AF_INET6, SOCK_RAW, OTHER);
	REQUIRE(other >= 0);
	for (int i = 0; i < 2 * RECVS; i++) {
		send_to(other, 2, 0);
		send_to(udp, 3, ECHO_PORT);
		send_to(udp, 2, ECHO_PORT);
		send_to(other, 3, 0);
		send_to(udp, 4, ECHO_PORT); /* none has asked for it */
		expect_frame_at(&n[0], UDP, 2, UDP_HEADER);
		expect_frame_at(&n[1], UDP, 3, UDP_HEADER);
		expect_frame_at(&n[2], OTHER, 2, 0);
		expect_frame_at(&n[2], OTHER, 3, 0);
	}
	close(udp);
	close(other);
	for (int i = 0; i < QPS; i++)
		node_close(&n[i], NULL);
	MUST(weft_adapter_close(a));
}

/* What the host does not take is lost and counted, with the reason. */
TEST(test_raw_01_what_the_host_refuses_is_counted)
{
	const char *why_not = tun_network_enter();
	struct weft_roce_counts counts;
	struct weft_completion c;
	struct weft_adapter *a;
	struct node n;
	int host;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_raw_open(a, "weft0"));
	raw_node_open(a, &n, WEFT_UD);
	MUST(weft_qp_to_raw(n.qp, &udp_to_us));
	host = host_socket("weft0");
	memset(n.memory, 0, HEADER); /* no version of IP */
	send_frame(&n, 0, HEADER);
	REQUIRE(node_take(n.cq, &c));
	MUST(weft_roce_query(a, &counts));
	EXPECT_EQ(counts.refused, 1);
	EXPECT_EQ(counts.refused_for, WEFT_R_TUN_REFUSED);
	set_up(host, "weft0", false);
	n.memory[0] = 0x60;
	send_frame(&n, 0, HEADER);
	REQUIRE(node_take(n.cq, &c));
	MUST(weft_roce_query(a, &counts));
	EXPECT_EQ(counts.refused, 2);
	close(host);
	node_close(&n, NULL);
	MUST(weft_adapter_close(a));
}

/* Frames are then lost, until another interface carries them. */
TEST(test_raw_01_an_interface_that_has_gone_can_be_opened_again)
{
	const struct weft_raw_options any = { .next_header = UDP };
	const char *why_not = tun_network_enter();
	struct weft_roce_counts counts;
	struct weft_completion c;
	struct weft_adapter *a;
	struct node n, second;
	int host;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_raw_open(a, "weft0"));
	raw_node_open(a, &n, WEFT_UD);
	raw_node_open(a, &second, WEFT_UD);
	MUST(weft_qp_to_raw(n.qp, &udp_to_us));
	delete_interface("weft0");
	memset(n.memory, 0, HEADER);
	n.memory[0] = 0x60;
	send_frame(&n, 0, HEADER);
	REQUIRE(node_take(n.cq, &c));
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	MUST(weft_roce_query(a, &counts));
	EXPECT_EQ(counts.refused, 1);
	EXPECT_EQ(counts.refused_for, WEFT_R_TUN_REFUSED);
	EXPECT_EQ(weft_qp_to_raw(second.qp, &any), WEFT_R_RAW_CLOSED);
	EXPECT_EQ(weft_raw_open(a, "lo"), WEFT_R_TUN_NAME);
	MUST(weft_raw_open(a, "weft0"));
	EXPECT_EQ(weft_raw_open(a, "weft0"), WEFT_R_BUSY);
	MUST(weft_qp_to_raw(second.qp, &any));
	for (uint64_t i = 0; i < RECVS; i++)
		receive_at(&n, i);
	host = host_socket("weft0");
	echo_once(host, &n);
	close(host);
	node_close(&n, NULL);
	node_close(&second, NULL);
	MUST(weft_adapter_close(a));
}

TEST(test_raw_03_refusals_say_why)
{
	const struct weft_raw_options ipv4 = { .next_header = UDP, .to = { .family = 4 } };
	const struct weft_raw_options any = { .next_header = UDP };
	const char *why_not = tun_network_enter();
	struct weft_adapter *a, *b;
	struct node n, second, connected;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_adapter_open(NULL, &b));
	MUST(weft_roce_open(a));
	raw_node_open(a, &n, WEFT_UD);
	raw_node_open(a, &second, WEFT_UD);
	raw_node_open(a, &connected, WEFT_RC);
	EXPECT_EQ(weft_qp_to_raw(n.qp, &udp_to_us), WEFT_R_RAW_CLOSED);
	EXPECT_EQ(weft_raw_open(a, "lo"), WEFT_R_TUN_NAME);
	EXPECT_EQ(weft_raw_open(a, ""), WEFT_R_TUN_NAME);
	EXPECT_EQ(weft_raw_open(a, "a-name-that-no-interface-has"), WEFT_R_TUN_NAME);
	MUST(weft_raw_open(a, "weft0"));
	EXPECT_EQ(weft_raw_open(a, "weft1"), WEFT_R_BUSY);
	EXPECT_EQ(weft_raw_open(b, "weft0"), WEFT_R_TUN_NAME);
	EXPECT_EQ(weft_qp_to_raw(connected.qp, &any), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_to_raw(n.qp, &ipv4), WEFT_R_ADDRESS);
	MUST(weft_qp_to_raw(n.qp, &udp_to_us));
	EXPECT_EQ(weft_qp_to_raw(n.qp, &any), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_qp_to_raw(second.qp, &udp_to_us), WEFT_R_ADDRESS_IN_USE);
	MUST(weft_qp_to_raw(second.qp, &any));
	node_close(&n, NULL);
	node_close(&second, NULL);
	node_close(&connected, NULL);
	MUST(weft_adapter_close(b));
	MUST(weft_adapter_close(a));
}

static int open_without_rights(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct weft_adapter *a;

	if (syscall(SYS_capset, &head, none) != 0 || weft_adapter_open(NULL, &a) != WEFT_OK)
		return 1;
	return weft_raw_open(a, "weft2") == WEFT_R_TUN_RIGHTS ? 0 : 2;
}

/* In a child, with a view of the files of its own in which the kernel's device is hidden. */
static int open_without_device(void)
{
	struct weft_adapter *a;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/dev/net", "tmpfs", 0, NULL) != 0)
		return 77;
	if (weft_adapter_open(NULL, &a) != WEFT_OK)
		return 1;
	return weft_raw_open(a, "weft2") == WEFT_R_TUN_NONE ? 0 : 2;
}

/* The exit status of what it does in a child. */
static int in_child(int (*run)(void))
{
	pid_t child = fork();
	int status;

	REQUIRE(child >= 0);
	if (child == 0)
		_exit(run());
	REQUIRE(waitpid(child, &status, 0) == child);
	REQUIRE(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(test_raw_01_interface_without_rights_is_refused)
{
	const char *why_not = tun_network_enter();

	if (why_not)
		SKIP(why_not);
	EXPECT_EQ(in_child(open_without_rights), 0);
}

TEST(test_raw_01_a_host_without_interfaces_is_a_reason_of_its_own)
{
	const char *why_not = tun_network_enter();
	int status;

	if (why_not)
		SKIP(why_not);
	status = in_child(open_without_device);
	if (status == 77)
		SKIP("no view of the files of its own");
	EXPECT_EQ(status, 0);
}
