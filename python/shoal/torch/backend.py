"""The ``torch.distributed`` backend "shoal": an existing script changes one word.

    import shoal.torch.backend
    torch.distributed.init_process_group("shoal")

Sums and means of floating-point tensors go through the engine in place. Everything else is made of copies: integers and truth
values, and reductions such as MAX, are gathered and reduced by every rank in the order of ranks, so they are exact.
"""

import logging
import os
import threading
import weakref

import numpy as np
import torch
import torch.distributed as dist

from .. import _api, errors
from ._any_source import Counters, FromAnyone
from ._bits import SUMMED, Rows, Staged, copyable, summable
from ._reduce import named, reduced
from ._uncompiled import never_compiled
from ._work import Work

log = logging.getLogger("shoal")

NAME = "shoal"

#: So many operations of one kind and size may be under way at once; the next waits for the oldest. The names go round, because
#: every name is kept by all nodes as long as the run lasts.
AT_ONCE = 4
#: From one to one more may be: both sides may send many before they receive any (pipelines do), and would wait in a circle.
AT_ONCE_BETWEEN_TWO = 64


@never_compiled
class ProcessGroup(dist.ProcessGroup):
    """``ranks``: the global ranks of the group's members, in the group's order."""

    #: torch asks; each operation goes by itself.
    supports_coalescing = False

    def __init__(self, rank, ranks, name, leave=None, store=None):
        super().__init__(rank, len(ranks))
        self._me, self._ranks, self._title, self._leave = rank, list(ranks), name, leave
        self._sorted = sorted(self._ranks)
        self._members = None if len(ranks) == _api.size() else self._sorted
        self._counts, self._last, self._turns = {}, {}, {}
        self._counters = Counters(rank, self._ranks, store)
        self._group_name = self._group_desc = ""

    # ---- names and members ------------------------------------------------------------------------------------------

    def _start(self, what, begin, at_once=AT_ONCE):
        """Starts one operation under the next of its names. All ranks do the same in the same order, so the names agree."""
        # Threads take turns, or two would start an operation under one name; only those of one kind, since a wait for the
        # oldest may need what another thread has yet to send.
        with self._turns.setdefault(what, threading.Lock()):
            count = self._counts.get(what, 0)
            self._counts[what] = count + 1
            place = (what, count % at_once)
            # Weakly: whoever started it keeps it, and its memory, as long as it is under way.
            oldest = self._last[place]() if place in self._last else None
            if oldest is not None:
                # Its error, if it has one, is for those who wait for it; the engine has the same for this one.
                try:
                    oldest.wait()
                except errors.ShoalError:
                    pass
            handle = begin(f"{self._title}: {what} #{count % at_once}")
            self._last[place] = weakref.ref(handle)
            return handle

    def _sum(self, host, op):
        array, dtype = summable(host)
        kind = "mean" if op == dist.ReduceOp.AVG else "sum"
        what = f"{kind} of {array.size} {host.dtype}"
        return self._start(
            what, lambda name: _api.push_pull_async(array, kind, name, dtype=dtype, members=self._members)
        )

    def _gather(self, array, dtype=None):
        what = f"gather of {array.shape} {dtype or array.dtype}"
        return self._start(
            what, lambda name: _api.all_gather_async(array, name, dtype=dtype, members=self._members)
        )

    def _copy(self, array, dtype, source, members, what, at_once):
        what = f"{what} of {array.size} {dtype or array.dtype}"
        return self._start(
            what, lambda name: _api.broadcast_async(array, source, name, dtype=dtype, members=members), at_once
        )

    def _root(self, rank):
        """The global rank of one that everybody names."""
        if not 0 <= rank < len(self._ranks):
            raise ValueError(f"rank {rank} is none of this group's: it has ranks 0 to {len(self._ranks) - 1}")
        return self._ranks[rank]

    def _place(self, rank):
        """Where a rank of the group has its row: rows are in the order of global ranks."""
        return self._sorted.index(self._ranks[rank])

    # ---- reductions -------------------------------------------------------------------------------------------------

    def _reduce_to(self, tensor, op, then):
        """Starts a reduction of ``tensor``; ``then`` gets the reduced host tensor. The tensor itself is not touched."""
        op = named(op)
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) and _base(tensor.dtype) in SUMMED:
            staged = Staged(tensor, copy=True)
            return [self._sum(staged.host, op)], lambda: then(staged.host)
        staged = Staged(tensor)
        rows = Rows(staged.host, self.size())
        rows.fill(self._place(self._me), staged.host)
        return [self._gather(rows.array())], lambda: then(reduced(rows.stack(), op))

    def allreduce(self, tensors, opts=None):
        op = named(opts.reduceOp) if opts is not None else dist.ReduceOp.SUM
        handles, after = [], []
        for tensor in tensors:
            if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) and _base(tensor.dtype) in SUMMED:
                staged = Staged(tensor)
                handles.append(self._sum(staged.host, op))
                after.append(staged.bring_back)
            else:
                more, then = self._reduce_to(tensor, op, lambda host, t=tensor: _put(t, host))
                handles += more
                after.append(then)
        return Work(handles, lambda: [then() for then in after], tensors)

    def allreduce_coalesced(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    def reduce(self, tensors, opts):
        root = opts.rootRank
        handles, after = [], []
        for tensor in tensors:
            put = (lambda host, t=tensor: _put(t, host)) if root == self._me else (lambda host: None)
            more, then = self._reduce_to(tensor, opts.reduceOp, put)
            handles += more
            after.append(then)
        return Work(handles, lambda: [then() for then in after], tensors)

    def reduce_scatter_single(self, output, whole, opts=None):
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        rows = whole.reshape(self.size(), -1)
        handles, then = self._reduce_to(rows, op, lambda host: _put(output, host[self._me]))
        return Work(handles, then, [output])

    def reduce_scatter(self, outputs, inputs, opts=None):
        works = [self.reduce_scatter_single(o, _stacked(i), opts) for o, i in zip(outputs, inputs)]
        return _together(works, outputs)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return _together([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs)], outputs)

    # ---- copies -----------------------------------------------------------------------------------------------------

    def _copy_tensor(self, tensor, source, members, what, at_once=AT_ONCE):
        """Starts a copy of the source's tensor into this one; the handle and what is to be done after it."""
        staged = Staged(tensor)
        found = copyable(staged.host)
        if found is not None:
            return self._copy(*found, source, members, what, at_once), staged.bring_back
        rows = Rows(staged.host, 1)
        rows.fill(0, staged.host)
        return self._copy(rows.array(), None, source, members, what, at_once), lambda: _put(tensor, rows.row(0))

    def broadcast(self, tensors, opts):
        root = self._root(opts.rootRank)
        pairs = [self._copy_tensor(t, root, self._members, f"broadcast from {root}") for t in tensors]
        return Work([h for h, _ in pairs], lambda: [then() for _, then in pairs], tensors)

    def allgather(self, outputs, inputs, opts=None):
        handles, after = [], []
        for tensors, tensor in zip(outputs, inputs):
            if len({t.numel() for t in tensors}) > 1:
                pairs = self._gather_uneven(tensors, tensor)
                handles += [handle for handle, _ in pairs]
                after += [then for _, then in pairs]
                continue
            staged = Staged(tensor)
            rows = Rows(staged.host, self.size())
            rows.fill(self._place(self._me), staged.host)
            handles.append(self._gather(rows.array()))
            after.append(lambda rows=rows, tensors=tensors: self._spread(rows, tensors))
        return Work(handles, lambda: [then() for then in after], [t for tensors in outputs for t in tensors])

    def _gather_uneven(self, tensors, tensor):
        """Rows of different lengths, which all ranks know from their outputs: a copy from each rank."""
        _put(tensors[self._me], tensor)
        names = [(self._ranks[rank], target) for rank, target in enumerate(tensors)]
        return [self._copy_tensor(target, root, self._members, f"gather from {root}") for root, target in names]

    def _spread(self, rows, tensors):
        for rank, tensor in enumerate(tensors):
            _put(tensor, rows.row(self._place(rank)))

    def all_gather_single(self, output, tensor, opts=None):
        return self.allgather([list(output.view(self.size(), *_row_shape(output, tensor)))], [tensor], opts)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        # Lists by rank of lists by tensor, or the other way round: what counts is that output i belongs to input i.
        return self.allgather(outputs, inputs, opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return _together([self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs)], outputs)

    # ---- from one to one --------------------------------------------------------------------------------------------

    def _between(self, tensor, source, target, tag):
        """A copy from one member to another; both call it."""
        if source == target:
            raise ValueError(f"rank {source} cannot send to itself")
        pair = sorted((self._ranks[source], self._ranks[target]))
        what = f"{self._ranks[source]} to {self._ranks[target]}, tag {tag},"
        return self._copy_tensor(tensor, self._ranks[source], pair, what, AT_ONCE_BETWEEN_TWO)

    def send(self, tensors, target, tag=0):
        for tensor in tensors:
            self._counters.sent(target, tag, tensor)
        pairs = [self._between(t, self._me, target, tag) for t in tensors]
        return Work([h for h, _ in pairs], None, tensors)

    def recv(self, tensors, source, tag=0):
        for tensor in tensors:
            self._counters.received(source, tag, tensor)
        return self._recv(tensors, source, tag)

    def _recv(self, tensors, source, tag):
        pairs = [self._between(t, source, self._me, tag) for t in tensors]
        return Work([h for h, _ in pairs], lambda: [then() for _, then in pairs], tensors)

    def recv_anysource(self, tensors, tag=0):
        if len(self._ranks) == 2:
            work = self.recv(tensors, 1 - self._me, tag)
            work.came_from(lambda: 1 - self._me)
            return work
        if self._counters._store is None or len(tensors) != 1:
            raise errors.UsageError("this group cannot receive from anyone: give src to recv(), and one tensor")
        anyone = FromAnyone(self._counters, tag, tensors[0], lambda source: self._recv(tensors, source, tag))
        work = Work([anyone], None, tensors)
        work.came_from(lambda: anyone.source)
        return work

    def _exchange(self, gives, takes, tag):
        """To and from many: ``gives`` and ``takes`` are tensors by rank; the own one is copied in place."""
        pairs = []
        for rank in range(self.size()):
            if rank == self._me:
                if rank in gives and rank in takes:
                    _put(takes[rank], gives[rank])
                continue
            # In one order on both sides of each pair, whatever the order of ranks: each has a name of its own.
            if rank in gives:
                pairs.append((self._between(gives[rank], self._me, rank, tag)[0], None))
            if rank in takes:
                pairs.append(self._between(takes[rank], rank, self._me, tag))
        result = [takes[rank] for rank in sorted(takes)]
        return Work([h for h, _ in pairs], lambda: [then() for _, then in pairs if then is not None], result)

    def gather(self, outputs, inputs, opts):
        if self._me == opts.rootRank:
            gives, takes = {self._me: inputs[0]}, dict(enumerate(outputs[0]))
        else:
            gives, takes = {opts.rootRank: inputs[0]}, {}
        return self._exchange(gives, takes, "gather")

    def scatter(self, outputs, inputs, opts):
        if self._me == opts.rootRank:
            gives, takes = dict(enumerate(inputs[0])), {self._me: outputs[0]}
        else:
            gives, takes = {}, {opts.rootRank: outputs[0]}
        return self._exchange(gives, takes, "scatter")

    def alltoall(self, outputs, inputs, opts=None):
        return self._exchange(dict(enumerate(inputs)), dict(enumerate(outputs)), "alltoall")

    def all_to_all_single(self, output, tensor, output_sizes=None, input_sizes=None, opts=None):
        outputs, inputs = _pieces(output, output_sizes, self.size()), _pieces(tensor, input_sizes, self.size())
        return self._exchange(dict(enumerate(inputs)), dict(enumerate(outputs)), "alltoall")

    def barrier(self, opts=None):
        array = np.zeros(1, dtype=np.float32)
        what = "barrier"
        handle = self._start(what, lambda name: _api.push_pull_async(array, "sum", name, members=self._members))
        return Work([handle])

    # Names of the same in other versions of torch.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _get_backend(self, device):
        """torch asks which part of a group serves a device: this one is for all."""
        return self

    def getBackendName(self):  # noqa: N802 - torch's name
        return NAME

    def name(self):
        return NAME

    # torch keeps a group's name with the parts it is made of, and this group has none. Meshes of devices ask for it.
    def _set_group_name(self, name):
        self._group_name = name

    def _set_group_desc(self, text):
        self._group_desc = text

    @property
    def group_name(self):
        return self._group_name

    @property
    def group_desc(self):
        return self._group_desc

    def shutdown(self):
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def abort(self):
        if self._leave is not None and _api.is_initialized():
            self._leave = None
            _api.abort("its process group was aborted")


def _base(dtype):
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _put(tensor, values):
    """Values of a host tensor into a tensor of as many elements, wherever it lies."""
    target = tensor.detach()
    if target.is_complex() and not values.is_complex():
        target = torch.view_as_real(target)
    target.copy_(values.reshape(target.shape))


def _stacked(tensors):
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def _row_shape(output, tensor):
    if output.numel() % max(1, tensor.numel()) == 0 and tensor.dim() > 0:
        return tensor.shape
    return (-1,)


def _pieces(tensor, sizes, count):
    return list(tensor.split(sizes)) if sizes else list(tensor.chunk(count))


class _All:
    """Several works as what one ``Work`` waits for."""

    def __init__(self, works):
        self._works = works

    def done(self):
        return all(work.is_completed() for work in self._works)

    def wait(self):
        for work in self._works:
            work.synchronize()


def _together(works, result):
    return Work([_All(works)], None, result)


def _create(options, backend_options=None):
    """What torch calls for every new group."""
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    leave = None
    if not _api.is_initialized():
        if "SHOAL_MASTER_ADDRESS" not in os.environ:
            raise errors.SettingError(
                'init_process_group("shoal") needs a run of shoal: start the script with `shoal run` '
                "(or set SHOAL_MASTER_ADDRESS to where ps_master listens)"
            )
        _api.init()
        # Whoever connected hangs up.
        leave = _api.shutdown
    _api.end_together()
    if ranks[options.group_rank] != _api.rank():
        raise errors.UsageError(
            f"torch calls this rank {ranks[options.group_rank]}, shoal calls it {_api.rank()}; "
            "RANK and SHOAL_CLIENT_ID must agree, as `shoal run` sets them"
        )
    if len(ranks) > _api.size():
        raise errors.UsageError(f"a group of {len(ranks)} ranks, but the run has {_api.size()} workers")
    _say_of_the_timeout(options)
    title = f"torch {options.group_id}"
    return ProcessGroup(options.group_rank, ranks, title, leave, options.store)


_told_of_timeout = False


def _say_of_the_timeout(options):
    """Once: somebody asked for something that is not there to be had."""
    global _told_of_timeout
    wanted = getattr(options, "timeout", None)
    if wanted not in (None, dist.constants.default_pg_timeout) and not _told_of_timeout:
        _told_of_timeout = True
        log.warning(
            'timeout=%s is not used by the backend "shoal": a wait ends when a worker dies or has ended its script, at once and '
            "with its name, and otherwise lasts as long as the slowest worker needs",
            wanted,
        )


def register():
    """Makes torch know the backend; more than once does no harm."""
    if NAME.upper() not in getattr(dist.Backend, "_plugins", {}):
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


if dist.is_available():
    register()
