-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark: the control messages and scatter-gather lists of weft's directed remote I/O, as
-- docs/wire/rio.md describes them.
--
--     tshark -X lua_script:rio.lua -r capture.pcapng -Y weft_rio
--     wireshark -X lua_script:rio.lua
--
-- Messages are found in iWARP Sends by their first bytes, whatever the port. The private data of data
-- connections is found in MPA start frames. A message that was sent in several DDP segments is shown
-- as far as its first segment goes.

local rio = Proto("weft_rio", "weft directed remote I/O")

local types = { [1] = "hello", [2] = "welcome", [3] = "prove", [4] = "request", [5] = "command",
	[6] = "status", [7] = "announce", [8] = "grant", [9] = "devices", [10] = "revoke",
	[11] = "cancel", [12] = "ping", [13] = "pong", [14] = "bye", [15] = "notified",
	[16] = "inquire", [17] = "report" }
local seen_kinds = { [1] = "requester", [2] = "owner", [3] = "I/O unit", [4] = "device" }
local roles = { [1] = "requester", [2] = "owner", [3] = "I/O unit", [4] = "card unit", [5] = "card host" }
local kinds = { [1] = "attributes", [2] = "chain pointer", [3] = "platform", [4] = "transaction",
	[5] = "detail", [6] = "immediate data" }
local operations = { [1] = "read", [2] = "write", [3] = "flush", [4] = "write zeroes",
	[5] = "discard" }
local segment_roles = { [0] = "source", [1] = "result" }
local data_kinds = { [0] = "ask", [1] = "answer" }
local families = { [0] = "none", [4] = "IPv4", [6] = "IPv6" }

local HEADER_BYTES, SEAL_BYTES, LAST_GREETING = 24, 16, 3

local f = {
	magic = ProtoField.string("weft_rio.magic", "Magic"),
	version = ProtoField.uint8("weft_rio.version", "Version"),
	type = ProtoField.uint8("weft_rio.type", "Type", base.DEC, types),
	length = ProtoField.uint32("weft_rio.length", "Length"),
	sequence = ProtoField.uint64("weft_rio.sequence", "Sequence"),
	id = ProtoField.uint64("weft_rio.id", "Id", base.HEX),
	seal = ProtoField.bytes("weft_rio.seal", "Seal"),
	zero = ProtoField.bytes("weft_rio.zero", "Reserved or padding"),
	platform = ProtoField.string("weft_rio.platform", "Platform"),
	from = ProtoField.string("weft_rio.from", "From"),
	to = ProtoField.string("weft_rio.to", "To"),
	role = ProtoField.uint8("weft_rio.role", "Role", base.DEC, roles),
	ephemeral = ProtoField.bytes("weft_rio.ephemeral", "Ephemeral key"),
	key = ProtoField.bytes("weft_rio.key", "Public key"),
	term = ProtoField.uint64("weft_rio.term", "Term of an owner"),
	incarnation = ProtoField.uint64("weft_rio.incarnation", "Incarnation of an owner", base.HEX),
	requests_max = ProtoField.uint32("weft_rio.requests_max", "Requests under way at most"),
	list_max = ProtoField.uint32("weft_rio.list_max", "Bytes of a list at most"),
	signature = ProtoField.bytes("weft_rio.signature", "Signature"),
	port = ProtoField.uint16("weft_rio.port", "Data port"),
	family = ProtoField.uint8("weft_rio.family", "Address family", base.DEC, families),
	ipv4 = ProtoField.ipv4("weft_rio.ipv4", "Data address"),
	ipv6 = ProtoField.ipv6("weft_rio.ipv6", "Data address"),
	ip = ProtoField.bytes("weft_rio.ip", "Data address"),
	timeout = ProtoField.uint32("weft_rio.timeout", "Timeout in ms"),
	urgent = ProtoField.bool("weft_rio.urgent", "Urgent", 32, nil, 1),
	asked = ProtoField.uint64("weft_rio.asked", "Id of the request", base.HEX),
	notified_count = ProtoField.uint32("weft_rio.notified.count", "Notified"),
	notified_id = ProtoField.uint64("weft_rio.notified.id", "Id", base.HEX),
	notified_done = ProtoField.uint64("weft_rio.notified.done", "Bytes done"),
	inquire_first = ProtoField.uint32("weft_rio.inquire.first", "First entry"),
	report_total = ProtoField.uint32("weft_rio.report.total", "Entries in all"),
	report_count = ProtoField.uint32("weft_rio.report.count", "Entries"),
	seen_kind = ProtoField.uint8("weft_rio.seen.kind", "Kind", base.DEC, seen_kinds),
	seen_here = ProtoField.uint8("weft_rio.seen.here", "Connected"),
	seen_now = ProtoField.uint32("weft_rio.seen.now", "Requests under way"),
	seen_requests = ProtoField.uint64("weft_rio.seen.requests", "Requests"),
	seen_refused = ProtoField.uint64("weft_rio.seen.refused", "Refused"),
	seen_failed = ProtoField.uint64("weft_rio.seen.failed", "Failed"),
	seen_read = ProtoField.uint64("weft_rio.seen.read", "Bytes read"),
	seen_written = ProtoField.uint64("weft_rio.seen.written", "Bytes written"),
	seen_payload_in = ProtoField.uint64("weft_rio.seen.payload_in", "Payload in"),
	seen_payload_out = ProtoField.uint64("weft_rio.seen.payload_out", "Payload out"),
	seen_control_in = ProtoField.uint64("weft_rio.seen.control_in", "Control in"),
	seen_control_out = ProtoField.uint64("weft_rio.seen.control_out", "Control out"),
	seen_connections = ProtoField.uint64("weft_rio.seen.connections", "Data connections"),
	seen_name_length = ProtoField.uint16("weft_rio.seen.name_length", "Name length"),
	seen_name = ProtoField.string("weft_rio.seen.name", "Name", base.UNICODE),
	reason = ProtoField.uint32("weft_rio.reason", "Reason (0: well)"),
	transaction = ProtoField.uint32("weft_rio.transaction", "Transaction"),
	done = ProtoField.uint64("weft_rio.done", "Bytes done"),
	text_length = ProtoField.uint16("weft_rio.text_length", "Length of text"),
	text = ProtoField.string("weft_rio.text", "Text", base.UNICODE),
	token = ProtoField.bytes("weft_rio.token", "Token (masked)"),
	count = ProtoField.uint32("weft_rio.device.count", "Devices"),
	number = ProtoField.uint32("weft_rio.device.number", "Device"),
	block = ProtoField.uint32("weft_rio.device.block", "Block bytes"),
	size = ProtoField.uint64("weft_rio.device.size", "Size in bytes"),
	instance = ProtoField.uint64("weft_rio.device.instance", "Instance", base.HEX),
	flags = ProtoField.uint32("weft_rio.device.flags", "Flags", base.HEX),
	read_only = ProtoField.bool("weft_rio.device.read_only", "Read only", 32, nil, 1),
	can_flush = ProtoField.bool("weft_rio.device.flush", "Flush", 32, nil, 2),
	can_fua = ProtoField.bool("weft_rio.device.fua", "FUA", 32, nil, 4),
	can_discard = ProtoField.bool("weft_rio.device.discard", "Discard", 32, nil, 8),
	can_zeroes = ProtoField.bool("weft_rio.device.zeroes", "Write zeroes", 32, nil, 16),
	name_length = ProtoField.uint16("weft_rio.device.name_length", "Length of name"),
	name = ProtoField.string("weft_rio.device.name", "Name", base.UNICODE),
	last = ProtoField.bool("weft_rio.sgl.last", "Last element", 32, nil, 0x80000000),
	kind = ProtoField.uint32("weft_rio.sgl.kind", "Kind", base.DEC, kinds, 0x7f000000),
	element = ProtoField.uint32("weft_rio.sgl.length", "Length of element", base.DEC, nil,
		0x00ffffff),
	address_bytes = ProtoField.uint8("weft_rio.sgl.address_bytes", "Bytes of an address"),
	context_bytes = ProtoField.uint8("weft_rio.sgl.context_bytes", "Bytes of a handle"),
	page_shift = ProtoField.uint8("weft_rio.sgl.page_shift", "Page frame, power of two"),
	handle = ProtoField.uint32("weft_rio.sgl.handle", "Handle", base.HEX),
	bytes = ProtoField.uint32("weft_rio.sgl.bytes", "Bytes"),
	address = ProtoField.uint64("weft_rio.sgl.address", "Address", base.HEX),
	operation = ProtoField.uint8("weft_rio.sgl.operation", "Operation", base.DEC, operations),
	fua = ProtoField.bool("weft_rio.sgl.fua", "Force unit access", 8, nil, 1),
	device = ProtoField.uint32("weft_rio.sgl.device", "Device"),
	offset = ProtoField.uint64("weft_rio.sgl.offset", "Offset in bytes"),
	range = ProtoField.uint64("weft_rio.sgl.range", "Length in bytes"),
	segment = ProtoField.uint8("weft_rio.sgl.role", "Role", base.DEC, segment_roles),
	ends = ProtoField.bool("weft_rio.sgl.ends", "Ends its buffer", 8, nil, 1),
	data = ProtoField.bytes("weft_rio.sgl.data", "Data"),
	data_kind = ProtoField.uint8("weft_rio.data.kind", "Kind", base.DEC, data_kinds),
	counter = ProtoField.uint64("weft_rio.data.counter", "Counter"),
	nonce = ProtoField.bytes("weft_rio.data.nonce", "Nonce"),
}
local all = {}
for _, field in pairs(f) do
	all[#all + 1] = field
end
rio.fields = all

local bad = ProtoExpert.new("weft_rio.bad", "Not as docs/wire/rio.md has it", expert.group.MALFORMED,
	expert.severity.WARN)
local cut = ProtoExpert.new("weft_rio.cut", "Goes on in another segment, or is cut short",
	expert.group.UNDECODED, expert.severity.NOTE)
rio.experts = { bad, cut }

-- A cursor: `at` and `stop` are offsets into tvb. What is not there ends the dissection.
local CUT = {}

local function take(c, n)
	if c.at + n > c.stop then
		error(CUT)
	end
	c.at = c.at + n
	return c.tvb(c.at - n, n)
end

-- Adds the next n bytes as this field; gives the bytes.
local function put(c, tree, field, n)
	local bytes = take(c, n)
	tree:add(field, bytes)
	return bytes
end

-- Reserved bytes show only where they are not 0.
local function put_zero(c, tree, n)
	if n == 0 then
		return
	end
	local bytes = take(c, n)
	for i = 0, n - 1 do
		if bytes(i, 1):uint() ~= 0 then
			tree:add(f.zero, bytes):add_proto_expert_info(bad, "Not 0")
			return
		end
	end
end

-- A platform is shown as people write it: 7.1.
local function put_platform(c, tree, field)
	local bytes = take(c, 8)
	local text = string.format("%u.%u", bytes(0, 4):uint(), bytes(4, 4):uint())
	local item = tree:add(field, bytes, text)
	if bytes(0, 4):uint() == 0 then
		item:add_proto_expert_info(bad, "Unit 0 names no unit")
	end
	return text
end

local function put_address(c, tree, family)
	local ip = take(c, 16)
	if family == 4 then
		tree:add(f.ipv4, ip(0, 4))
	elseif family == 6 then
		tree:add(f.ipv6, ip)
	else
		tree:add(f.ip, ip)
	end
end

-- ---- lists --------------------------------------------------------------------------------------

-- Of each kind: adds what is behind the first word of element e to the tree, gives a summary.
local elements = {}

elements[1] = function(e, tree, list)
	list.address_bytes = put(e, tree, f.address_bytes, 1):uint()
	put(e, tree, f.context_bytes, 1)
	local shift = put(e, tree, f.page_shift, 1):uint()
	put_zero(e, tree, 1)
	return string.format("addresses of %u bytes, pages of 2^%u", list.address_bytes, shift)
end

elements[2] = function(e, tree, list)
	local platform = put_platform(e, tree, f.platform)
	put(e, tree, f.handle, 4)
	local bytes = put(e, tree, f.bytes, 4):uint()
	put(e, tree, f.address, list.address_bytes)
	return string.format("%u bytes at %s", bytes, platform)
end

elements[3] = function(e, tree)
	return put_platform(e, tree, f.platform)
end

elements[4] = function(e, tree, list)
	local operation = put(e, tree, f.operation, 1):uint()
	put(e, tree, f.fua, 1)
	put_zero(e, tree, 2)
	local device = put(e, tree, f.device, 4):uint()
	local offset = put(e, tree, f.offset, 8):uint64()
	local length = put(e, tree, f.range, 8):uint64()
	local text = string.format("%s of device %u, %s bytes at %s",
		operations[operation] or "unknown", device, tostring(length), tostring(offset))
	list.says[#list.says + 1] = text
	return text
end

elements[5] = function(e, tree, list)
	local role = put(e, tree, f.segment, 1):uint()
	put(e, tree, f.ends, 1)
	put_zero(e, tree, 2)
	local handle = put(e, tree, f.handle, 4):uint()
	local bytes = put(e, tree, f.bytes, 4):uint()
	put(e, tree, f.address, list.address_bytes)
	return string.format("%s, %u bytes, handle 0x%08x", segment_roles[role] or "unknown", bytes,
		handle)
end

elements[6] = function(e, tree)
	put(e, tree, f.segment, 1)
	put(e, tree, f.ends, 1)
	put_zero(e, tree, 2)
	local count = put(e, tree, f.bytes, 4):uint()
	if count > 0 then
		put(e, tree, f.data, count)
	end
	put_zero(e, tree, e.stop - e.at)
	return string.format("%u bytes", count)
end

local function put_list(c, tree, list)
	local top = tree:add(rio, c.tvb(c.at, c.stop - c.at), "Scatter-gather list")
	while c.at < c.stop do
		local word = c.tvb(c.at, 4):uint()
		local kind, length = bit.band(bit.rshift(word, 24), 0x7f), bit.band(word, 0xffffff)
		if length < 4 or length % 4 ~= 0 then
			top:add_proto_expert_info(bad, "An element of impossible length")
			return
		end
		if c.at + length > c.stop then
			error(CUT)
		end
		local sub = top:add(rio, c.tvb(c.at, length), kinds[kind] or "Unknown element")
		local e = { tvb = c.tvb, at = c.at + 4, stop = c.at + length }
		for _, field in ipairs({ f.last, f.kind, f.element }) do
			sub:add(field, c.tvb(c.at, 4))
		end
		if elements[kind] then
			sub:append_text(": " .. elements[kind](e, sub, list))
		end
		if not elements[kind] or e.at ~= e.stop then
			sub:add_proto_expert_info(bad, "No such element")
		end
		c.at = c.at + length
	end
end

-- ---- messages -----------------------------------------------------------------------------------

local function put_padded(c, tree, length_field, text_field)
	local length = put(c, tree, length_field, 2):uint()
	put_zero(c, tree, 2)
	local text = ""
	if length > 0 then
		local bytes = take(c, length)
		text = bytes:string(ENC_UTF_8)
		tree:add(text_field, bytes, text)
	end
	put_zero(c, tree, -length % 4)
	return text
end

local function put_device(c, tree)
	local start = c.at
	local sub = tree:add(rio, c.tvb(start, 0), "Device")
	put(c, sub, f.number, 4)
	put(c, sub, f.block, 4)
	put(c, sub, f.size, 8)
	put(c, sub, f.instance, 8)
	local flags = put(c, sub, f.flags, 4)
	for _, field in ipairs({ f.read_only, f.can_flush, f.can_fua, f.can_discard,
		f.can_zeroes }) do
		sub:add(field, flags)
	end
	sub:append_text(": " .. put_padded(c, sub, f.name_length, f.name))
	sub:set_len(c.at - start)
end

local function put_devices(c, tree)
	local count = put(c, tree, f.count, 4):uint()
	put_zero(c, tree, 4)
	for _ = 1, count do
		put_device(c, tree)
	end
end

local function put_seen(c, tree)
	local start = c.at
	local sub = tree:add(rio, c.tvb(start, 0), "Entry")
	local kind = put(c, sub, f.seen_kind, 1):uint()
	put(c, sub, f.seen_here, 1)
	put_zero(c, sub, 2)
	sub:append_text(string.format(": %s %s", seen_kinds[kind] or "unknown",
		put_platform(c, sub, f.platform)))
	if kind == 4 then
		put_device(c, sub)
	else
		local counters = kind == 2 and { f.seen_payload_in, f.seen_payload_out,
			f.seen_control_in, f.seen_control_out, f.seen_connections } or
			{ f.seen_requests, f.seen_refused, f.seen_failed, f.seen_read,
			f.seen_written }
		put(c, sub, f.seen_now, 4)
		for _, field in ipairs(counters) do
			put(c, sub, field, 8)
		end
		sub:append_text(" " .. put_padded(c, sub, f.seen_name_length, f.seen_name))
	end
	sub:set_len(c.at - start)
end

local function put_hello(c, tree)
	local platform = put_platform(c, tree, f.platform)
	local role = put(c, tree, f.role, 1):uint()
	put_zero(c, tree, 3)
	put(c, tree, f.ephemeral, 32)
	put(c, tree, f.key, 32)
	put(c, tree, f.term, 8)
	put(c, tree, f.incarnation, 8)
	return string.format("%s, %s", platform, roles[role] or "unknown role")
end

local function put_request(c, tree, is_command)
	local list = { address_bytes = 8, says = {} }
	put(c, tree, f.timeout, 4)
	if is_command then
		put(c, tree, f.urgent, 4)
	else
		put_zero(c, tree, 4)
	end
	put_list(c, tree, list)
	return table.concat(list.says, "; ")
end

-- Of each type: adds the body, gives a summary or nothing.
local bodies = {}

bodies[1] = put_hello

bodies[2] = function(c, tree)
	local text = put_hello(c, tree)
	put(c, tree, f.requests_max, 4)
	put(c, tree, f.list_max, 4)
	put(c, tree, f.signature, 64)
	return text
end

bodies[3] = function(c, tree)
	put(c, tree, f.signature, 64)
	put(c, tree, f.port, 2)
	put_zero(c, tree, 2)
	local family = put(c, tree, f.family, 1):uint()
	put_zero(c, tree, 3)
	put_address(c, tree, family)
end

bodies[4] = put_request

bodies[5] = function(c, tree)
	local platform = put_platform(c, tree, f.platform)
	put(c, tree, f.asked, 8)
	return "for " .. platform .. ": " .. put_request(c, tree, true)
end

bodies[6] = function(c, tree)
	local reason = put(c, tree, f.reason, 4):uint()
	put(c, tree, f.transaction, 4)
	put(c, tree, f.done, 8)
	local text = put_padded(c, tree, f.text_length, f.text)
	return reason == 0 and "well" or string.format("reason %u %s", reason, text)
end

bodies[7] = function(c, tree)
	local platform = put_platform(c, tree, f.platform)
	put(c, tree, f.token, 32)
	put_devices(c, tree)
	return platform
end

bodies[8] = function(c, tree)
	local platform = put_platform(c, tree, f.platform)
	put(c, tree, f.token, 32)
	local family = put(c, tree, f.family, 1):uint()
	put_zero(c, tree, 1)
	put(c, tree, f.port, 2)
	put_address(c, tree, family)
	return platform
end

bodies[9] = put_devices

bodies[10] = function(c, tree)
	return put_platform(c, tree, f.platform)
end

bodies[11] = function() end
bodies[12] = bodies[11]
bodies[13] = bodies[11]

bodies[14] = function(c, tree)
	local reason = put(c, tree, f.reason, 4):uint()
	put_zero(c, tree, 4)
	return string.format("reason %u", reason)
end

bodies[15] = function(c, tree)
	local count = put(c, tree, f.notified_count, 4):uint()
	put_zero(c, tree, 4)
	for _ = 1, count do
		put(c, tree, f.notified_id, 8)
		put(c, tree, f.notified_done, 8)
	end
	return string.format("%u went well", count)
end

bodies[16] = function(c, tree)
	local first = put(c, tree, f.inquire_first, 4):uint()
	put_zero(c, tree, 4)
	return string.format("from entry %u", first)
end

bodies[17] = function(c, tree)
	local total = put(c, tree, f.report_total, 4):uint()
	local count = put(c, tree, f.report_count, 4):uint()
	for _ = 1, count do
		put_seen(c, tree)
	end
	return string.format("%u of %u entries", count, total)
end

-- Runs it; if the bytes end before it does, says so in the tree.
local function as_far_as_it_goes(tree, body, ...)
	local is_good, result = pcall(body, ...)
	if is_good then
		return result
	elseif result ~= CUT then
		error(result, 0)
	end
	tree:add_proto_expert_info(cut)
end

function rio.dissector(tvb, pinfo, tree)
	if tvb:len() < HEADER_BYTES then
		return 0
	end
	local type, length = tvb(3, 1):uint(), tvb(4, 4):uint()
	local stop = math.min(length, tvb:len())
	local top = tree:add(rio, tvb(0, stop))
	local c = { tvb = tvb, at = 0, stop = stop }

	pinfo.cols.protocol = "weft rio"
	put(c, top, f.magic, 2)
	put(c, top, f.version, 1)
	put(c, top, f.type, 1)
	put(c, top, f.length, 4)
	put(c, top, f.sequence, 8)
	put(c, top, f.id, 8)
	-- Where the seal is missing, so is what stood before it.
	local is_sealed = type > LAST_GREETING and length <= tvb:len() and length >= c.at + SEAL_BYTES
	if is_sealed then
		c.stop = c.stop - SEAL_BYTES
	end
	local says = as_far_as_it_goes(top, bodies[type], c, top)
	local summary = types[type] .. (says and ": " .. says or "")
	if length <= tvb:len() and says ~= nil and c.at ~= c.stop then
		top:add_proto_expert_info(bad, "There is more than its type has")
	end
	if is_sealed then
		c.at, c.stop = c.stop, stop
		put(c, top, f.seal, SEAL_BYTES)
	end
	top:append_text(", " .. summary)
	pinfo.cols.info:set(summary)
	return stop
end

local function is_message(tvb)
	return tvb:len() >= HEADER_BYTES and tvb(0, 3):uint() == 0x524602 and
		types[tvb(3, 1):uint()] ~= nil and tvb(4, 4):uint() >= HEADER_BYTES and
		tvb(4, 4):uint() <= 8192
end

rio:register_heuristic("iwarp_ddp_rdmap", function(tvb, pinfo, tree)
	if not is_message(tvb) then
		return false
	end
	rio.dissector(tvb, pinfo, tree)
	return true
end)

-- ---- private data of data connections -----------------------------------------------------------

local private_data = Field.new("iwarp_mpa.privatedata")
local data = Proto("weft_rio_data", "weft directed remote I/O, data connection")

local function put_data(range, tree)
	local c = { tvb = range, at = 0, stop = 80 }
	put(c, tree, f.magic, 2)
	put(c, tree, f.version, 1)
	local kind = put(c, tree, f.data_kind, 1):uint()
	put(c, tree, f.reason, 4)
	local from = put_platform(c, tree, f.from)
	local to = put_platform(c, tree, f.to)
	put(c, tree, f.counter, 8)
	put(c, tree, f.nonce, 32)
	put(c, tree, f.seal, 16)
	tree:append_text(string.format(", %s from %s to %s", data_kinds[kind] or "unknown", from, to))
end

function data.dissector(_, _, tree)
	for _, info in ipairs({ private_data() }) do
		-- MPA revision 2 puts four bytes of its own in front (RFC 6581 section 9).
		for _, at in ipairs({ 0, 4 }) do
			local range = info.range
			if range:len() == at + 80 and range(at, 3):uint() == 0x524401 then
				put_data(range(at, 80), tree:add(data, range(at, 80)))
			end
		end
	end
end

register_postdissector(data)
