-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark: the messages of weft's split network card, as docs/wire/push.md
-- describes them.
--
--     tshark -X lua_script:push.lua -r capture.pcapng -Y weft_push
--     wireshark -X lua_script:push.lua
--
-- Messages have no magic number: they are found in Sends by their function, version and length. A message
-- that was sent in several segments is shown as far as its first segment goes.

local push = Proto("weft_push", "weft split network card")

local functions = { [1] = "BufferRecvPool", [2] = "BufferRecvPoolGet", [3] = "BufferRecvPoolUpdate",
	[4] = "BufferPoolFlushRequest", [5] = "BufferPoolFlushReply", [6] = "SendData",
	[7] = "BufferRDMAIndicate", [8] = "CfgUtilRequest", [9] = "CfgUtilReply",
	[10] = "BufferPoolFlushRequest of the initiator", [11] = "BufferPull" }
local kinds = { [1] = "hello", [2] = "set MAC", [3] = "set MTU", [4] = "set filter",
	[5] = "set offers", [6] = "link", [7] = "statistics", [8] = "ping" }
local roles = { [1] = "host", [2] = "unit" }
local modes = { [1] = "Send", [2] = "RDMA" }

local HEADER_BYTES, VERSION = 12, 1
-- The bytes of an entry, of functions whose body is a count and entries.
local entry_bytes = { [1] = 32, [3] = 12, [7] = 16 }
-- Between two processes a sequence and a seal are behind each message.
local SEQUENCE_BYTES, SEAL_BYTES = 8, 16
local TAIL_BYTES = SEQUENCE_BYTES + SEAL_BYTES

local f = {
	func = ProtoField.uint16("weft_push.function", "Function", base.DEC, functions),
	version = ProtoField.uint16("weft_push.version", "Version"),
	context = ProtoField.uint64("weft_push.context", "Transaction context", base.HEX),
	count = ProtoField.uint32("weft_push.count", "Count"),
	pool = ProtoField.uint32("weft_push.pool", "Pool"),
	handle = ProtoField.uint32("weft_push.handle", "Handle", base.HEX),
	elements = ProtoField.uint32("weft_push.elements", "Elements"),
	element_bytes = ProtoField.uint32("weft_push.element_bytes", "Element size"),
	address = ProtoField.uint64("weft_push.address", "Address", base.HEX),
	pool_context = ProtoField.uint64("weft_push.pool_context", "Context of the pool"),
	first = ProtoField.uint32("weft_push.first", "First element"),
	element = ProtoField.uint32("weft_push.element", "Element"),
	bytes = ProtoField.uint32("weft_push.bytes", "Bytes written"),
	packet_bytes = ProtoField.uint32("weft_push.packet_bytes", "Packet size"),
	packets = ProtoField.uint32("weft_push.packets", "Packets"),
	length = ProtoField.uint32("weft_push.length", "Length"),
	data = ProtoField.bytes("weft_push.data", "Packet"),
	kind = ProtoField.uint16("weft_push.kind", "Kind", base.DEC, kinds),
	zero = ProtoField.bytes("weft_push.zero", "Reserved"),
	size = ProtoField.uint32("weft_push.size", "Size"),
	reason = ProtoField.uint32("weft_push.reason", "Reason (0: well)"),
	role = ProtoField.uint8("weft_push.role", "Role", base.DEC, roles),
	mode = ProtoField.uint8("weft_push.mode", "Mode", base.DEC, modes),
	flags = ProtoField.uint32("weft_push.flags", "Flags", base.HEX),
	mtu = ProtoField.uint16("weft_push.mtu", "MTU"),
	queues = ProtoField.uint16("weft_push.queues", "Queues"),
	features = ProtoField.uint64("weft_push.features", "Features", base.HEX),
	mac = ProtoField.ether("weft_push.mac", "MAC address"),
	pools_max = ProtoField.uint32("weft_push.pools_max", "Pools at most"),
	elements_max = ProtoField.uint32("weft_push.elements_max", "Elements at most"),
	message_max = ProtoField.uint32("weft_push.message_max", "Bytes of a message at most"),
	vlans = ProtoField.uint16("weft_push.vlans", "VLANs"),
	groups = ProtoField.uint16("weft_push.groups", "Groups"),
	vlan = ProtoField.uint16("weft_push.vlan", "VLAN"),
	group = ProtoField.ether("weft_push.group", "Group"),
	up = ProtoField.uint8("weft_push.up", "Link is up"),
	megabits = ProtoField.uint32("weft_push.megabits", "Mbit/s"),
	counter = ProtoField.uint64("weft_push.counter", "Counter"),
	sent = ProtoField.uint64("weft_push.sent", "Packets sent"),
	received = ProtoField.uint64("weft_push.received", "Packets received"),
	sequence = ProtoField.uint64("weft_push.sequence", "Sequence"),
	seal = ProtoField.bytes("weft_push.seal", "Seal"),
}
for _, field in pairs(f) do
	push.fields[#push.fields + 1] = field
end
local cut = ProtoExpert.new("weft_push.cut", "The message ends inside of this", expert.group.MALFORMED,
	expert.severity.WARN)
push.experts = { cut }

-- Reads fields one after the other; past `stop` it stops, and says so once.
local function reader(buffer, tree, stop)
	local r = { at = 0, stop = stop, is_cut = false }

	function r:add(field, length)
		if self.is_cut or self.at + length > self.stop then
			if not self.is_cut then
				tree:add_proto_expert_info(cut)
			end
			self.is_cut = true
			return 0
		end
		local range = buffer(self.at, length)
		tree:add(field, range)
		self.at = self.at + length
		return length <= 4 and range:uint() or 0
	end

	return r
end

local function pool(r)
	for _, field in ipairs({ f.pool, f.handle, f.elements, f.element_bytes }) do
		r:add(field, 4)
	end
	r:add(f.address, 8)
	r:add(f.pool_context, 8)
end

local function run(r)
	r:add(f.pool, 4)
	r:add(f.first, 4)
	r:add(f.elements, 4)
end

local function used(r)
	r:add(f.pool, 4)
	r:add(f.element, 4)
	r:add(f.element_bytes, 4)
	r:add(f.bytes, 4)
end

local function entries(each)
	return function(r)
		for _ = 1, r:add(f.count, 4) do
			if r.is_cut then
				return
			end
			each(r)
		end
	end
end

local function references(r)
	while r.at < r.stop and not r.is_cut do
		r:add(f.pool, 4)
	end
end

local contents = {
	[1] = function(r)
		r:add(f.role, 1)
		r:add(f.mode, 1)
		r:add(f.flags, 1)
		r:add(f.zero, 1)
		r:add(f.mtu, 2)
		r:add(f.queues, 2)
		r:add(f.features, 8)
		r:add(f.mac, 6)
		r:add(f.zero, 2)
		r:add(f.pools_max, 4)
		r:add(f.elements_max, 4)
		r:add(f.message_max, 4)
	end,
	[2] = function(r)
		r:add(f.mac, 6)
		r:add(f.zero, 2)
	end,
	[3] = function(r)
		r:add(f.mtu, 2)
		r:add(f.zero, 2)
	end,
	[4] = function(r)
		r:add(f.flags, 4)
		local vlans, groups = r:add(f.vlans, 2), r:add(f.groups, 2)
		for _ = 1, vlans do
			r:add(f.vlan, 2)
		end
		for _ = 1, groups do
			r:add(f.group, 6)
		end
	end,
	[5] = function(r)
		r:add(f.features, 8)
		r:add(f.queues, 2)
		r:add(f.zero, 2)
	end,
	[6] = function(r)
		r:add(f.up, 1)
		r:add(f.zero, 3)
		r:add(f.megabits, 4)
	end,
	[7] = function(r)
		while r.at < r.stop and not r.is_cut do
			r:add(f.counter, 8)
		end
	end,
	[8] = function(r)
		r:add(f.sent, 8)
		r:add(f.received, 8)
	end,
}

local function cfg(is_reply)
	return function(r)
		local kind = r:add(f.kind, 2)
		r:add(f.zero, 2)
		local size = r:add(f.size, 4)
		local reason = is_reply and r:add(f.reason, 4) or 0
		if reason == 0 and size > 0 and contents[kind] then
			contents[kind](r)
		end
	end
end

local bodies = {
	[1] = entries(pool),
	[2] = function(r)
		r:add(f.packet_bytes, 4)
		r:add(f.packets, 4)
	end,
	[3] = entries(run),
	[4] = references,
	[5] = function() end,
	[6] = function(r)
		local length = r:add(f.length, 4)
		if length > 0 then
			r:add(f.data, math.min(length, r.stop - r.at))
		end
	end,
	[7] = entries(used),
	[8] = cfg(false),
	[9] = cfg(true),
	[10] = references,
	[11] = run,
}

-- The bytes of the message without its tail, as its fields say; all, if it is cut before these.
local function message_bytes(buffer)
	local func, length = buffer(0, 2):uint(), buffer:len()
	local fixed = { [2] = 20, [5] = HEADER_BYTES, [11] = 24 }
	-- Where a count or a size is, what it counts, and what is before that.
	local counted = { [1] = { 12, 32, 16 }, [3] = { 12, 12, 16 }, [6] = { 12, 1, 16 }, [7] = { 12, 16, 16 },
		[8] = { 16, 1, 20 }, [9] = { 16, 1, 24 } }

	if fixed[func] then
		return fixed[func]
	end
	if not counted[func] then -- a flush: its references end where the tail begins
		return length - TAIL_BYTES
	end
	local at, each, before = table.unpack(counted[func])
	return length >= at + 4 and before + each * buffer(at, 4):uint() or length
end

local function is_message(buffer)
	if buffer:len() < HEADER_BYTES or buffer(2, 2):uint() ~= VERSION then
		return false
	end
	local func = buffer(0, 2):uint()
	if not functions[func] or (func == 5 and buffer:len() ~= HEADER_BYTES + TAIL_BYTES) then
		return false
	end
	-- What a count promises is at least begun.
	return not entry_bytes[func] or (buffer:len() >= 16 and buffer(12, 4):uint() > 0 and
		buffer(12, 4):uint() <= math.floor(2036 / entry_bytes[func]))
end

function push.dissector(buffer, packet, tree)
	if not is_message(buffer) then
		return 0
	end
	local func = buffer(0, 2):uint()
	local sub = tree:add(push, buffer(), "weft split network card: " .. functions[func])
	local stop = math.max(HEADER_BYTES, math.min(message_bytes(buffer), buffer:len()))
	local r = reader(buffer, sub, stop)

	packet.cols.protocol = "PUSH"
	packet.cols.info:append(" [" .. functions[func] .. "]")
	r:add(f.func, 2)
	r:add(f.version, 2)
	r:add(f.context, 8)
	bodies[func](r)
	-- InfiniBand pads it to whole words.
	if buffer:len() - stop - TAIL_BYTES >= 0 and buffer:len() - stop - TAIL_BYTES < 4 then
		r.at, r.stop = stop, stop + TAIL_BYTES
		r:add(f.sequence, SEQUENCE_BYTES)
		r:add(f.seal, SEAL_BYTES)
	end
	return buffer:len()
end

local function heuristic(buffer, packet, tree)
	return push.dissector(buffer, packet, tree) > 0
end

push:register_heuristic("iwarp_ddp_rdmap", heuristic)
push:register_heuristic("infiniband.payload", heuristic)
