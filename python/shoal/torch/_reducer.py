"""When does each gradient of a model leave, and when must it be there?

Every backward outside of ``no_sync`` is one *round*: each trainable parameter takes part exactly once on every worker,
from its hook as soon as its gradient is there, or, where this worker's backward did not come by it, when the round
closes: at the first look at a gradient, at ``step()`` or at the next backward. So workers may differ in which
parameters a batch uses, and nobody waits for ever (GRAD-5).
"""

import logging
import threading
import weakref

import numpy as np
import torch

from .. import _api
from .._planner import FACTORS, Planner
from ..errors import UsageError
from ._asked import ACCUMULATED, accumulator_of, how_wanted
from ._buffers import Buffers
from ._bundle import bundle_up, may_be_bundled
from ._hooks import Guard, hook, is_nested
from ._parameter import adopt, raw_grad
from ._running import RunningStatistics
from ._slot import Slot
from ._states import States
from ._timeline import compute
from ._uncompiled import never_compiled
from ._weight import Weight, backward_ended

log = logging.getLogger("shoal")

_NO_BACKWARD = -1
_backward_now = torch._C._current_graph_task_id


class Reducer:
    """The gradients of one model. ``named`` are its parameters with their names, in the same order on every worker."""

    def __init__(self, named, prefix, use_sfb="auto", running=(), others=(), compress=None):
        self.prefix, self.use_sfb, self.compress = prefix, use_sfb, compress
        self.slots = [Slot(self, parameter, name, index) for index, (name, parameter) in enumerate(named)]
        self.pairs = []
        self.round, self.quiet, self.failure = 0, 0, None
        self.weight = 1.0  # of this worker's gradients in this round
        self._set_weight = Weight()
        self.lock = threading.RLock()
        self.is_open = False  # whether a round has begun and not every parameter has taken part
        self._backward = self._ended = None  # the backward that runs or ran last, and the last to end well
        self._thread = None  # where its hooks run
        self._arrivals = []  # the order in which the first round's gradients came
        self._by_need = list(self.slots)
        self._small, self._bundles = [], []
        self._buffers = Buffers(others, prefix)
        self._states = States(self.slots, prefix, self._buffers)
        self._running = RunningStatistics(running, f"{prefix}running statistics")
        self._stepped = weakref.WeakKeyDictionary()
        self._start_planning()
        for slot in self.slots:
            adopt(slot.parameter, slot)
            hook(slot)
        _api.before_leaving(self.leave)

    # Backward

    def touched(self, slot):
        """A backward came by this parameter; the first to say so begins the round."""
        now = _backward_now()
        if now == self._backward:
            return
        if not slot.parameter.requires_grad:
            return  # frozen since forward: nothing is added to its gradient
        if how_wanted(accumulator_of(slot.parameter)) != ACCUMULATED:
            return  # torch.autograd.grad(): the gradient goes to whoever called it
        nested = is_nested()
        if self.is_open and slot.round != self.round:
            # A backward inside of the one that runs, as checkpoints make them; they are numbered as they begin.
            if nested:
                return
            if now < self._backward:
                self._backward = self._ended = now
                return
        self._begin_backward(now, nested)
        if nested:
            self._ended = now  # its end says nothing about the outer one's
        else:
            torch.autograd.Variable._execution_engine.queue_callback(self._backward_ended)

    def _begin_backward(self, now, nested):
        if self.is_open:
            self.close()
        self.finish(at_step=False)
        self._update_plan()
        self._look_who_is_there()
        self._backward, self._thread = now, threading.get_ident()
        if not any(slot.unsynced for slot in self.slots) and not any(pair.has_rows for pair in self.pairs):
            self._set_weight.forget()
        self._set_weight.take(now, nested)
        if not self.quiet:
            self._begin_round()

    @never_compiled
    def _backward_ended(self):
        self._ended = self._backward
        backward_ended(self._backward)

    def _look_who_is_there(self):
        """After ``admit()`` let somebody in, all plan anew; that somebody has no plan yet."""
        if _api._admissions != self._admissions:
            self._start_planning()

    def _begin_round(self):
        # What a script freezes or thaws from here on counts from the next round on, whoever has been sent by then.
        for slot in self.slots:
            slot.joined = slot.takes_part
        self._bundle_up()
        self.round += 1
        self.weight = self._set_weight.of_the_round()
        self.is_open = True

    def _bundle_up(self):
        # A round that plans goes without: before it, workers have not told each other which parameters have hooks.
        small = [] if self.planning else [slot for slot in self.slots if may_be_bundled(slot)]
        small = [(slot, slot.parameter.numel()) for slot in small if not self._states.anyone_watches(slot.index)]
        if small != self._small:
            for slot in self.slots:
                slot.bundle = None
            self._small, self._bundles = small, bundle_up([slot for slot, _ in small], self.prefix)
        for bundle in self._bundles:
            bundle.begin()

    def before_accumulating(self, slot, gradient):
        """The hook before a gradient is added; None is what backward says where factors were taken instead."""
        slot.nothing_added = gradient is None
        if gradient is None:
            compute.backward_reached(slot)
        with self.guard():
            if gradient is not None:
                self.touched(slot)
                return
            pair = slot.pair
            if self.quiet or self.failure is not None:
                return
            if pair is not None and pair.weight is slot and pair.chosen and slot.round != self.round:
                pair.start()

    def accumulated(self, slot):
        """The hook after a gradient was added."""
        if slot.nothing_added or raw_grad(slot.parameter) is None or self.failure is not None:
            return
        compute.backward_reached(slot)
        with self.guard():
            factored = slot.pair is not None and slot.pair.chosen
            if self.quiet or factored:
                slot.unsynced = True
            if self.quiet:
                return
            if self._arrivals is not None:
                self._arrivals.append(slot)
            if not factored:
                slot.round = self.round
                slot.push()

    # Ends of rounds

    def close(self):
        """Sends what this worker's backward did not come by, so that the round is complete here."""
        if not self.is_open:
            return
        by_factors = [pair for pair in self.pairs if pair.chosen and pair.weight.round != self.round]
        self.is_open = False
        if self._backward is not None and self._ended != self._backward:
            log.warning(
                "%s: backward ended with an exception; this worker's part of the step is what it had until then. "
                "The others go on with it: call step() as they do, or end",
                self.prefix.rstrip("."),
            )
        for pair in by_factors:
            pair.start()
        for slot in self.slots:
            if slot.round == self.round:
                continue
            slot.had = False
            if slot.joined:
                hook(slot)  # it may have been frozen so far
                slot.round = self.round
                slot.push()
        self._states.push(self.round)
        self._running.push(self.weight)
        self._buffers.push()
        self._learn_order()

    def _learn_order(self):
        """What backward reaches last, forward needs first."""
        if not self._arrivals:
            return
        order = list(dict.fromkeys(reversed(self._arrivals)))
        came = set(order)
        order += [slot for slot in self.slots if slot not in came]
        for position, slot in enumerate(order):
            slot.priority = min(position, 65535)
        self._by_need, self._arrivals = order, None

    def anyone_had(self, slot):
        """Whether any worker had a gradient of this parameter in this round; if not, it stays None."""
        if slot.had:
            return True
        self._await_states()
        return self._states.anyone_had(slot.index)

    def _await_states(self):
        """Before any wait for a gradient of a closed round: one that a worker leaves out never comes."""
        try:
            self._states.wait()
        except UsageError as error:
            self.failure = self.failure or error
            raise

    def settle(self, slot):
        """Waits until this parameter's gradient is there."""
        if self._states.under_way:
            self._await_states()
        if slot.pair is not None and slot.pair.under_way:
            self._resolve(slot.pair)
        if slot.has_more_to_say and not self.is_open:
            self._advance_all()
        slot.finish()

    def _advance_all(self):
        """Nobody waits for an answer to a second message before having sent all of those: workers may wait in any order."""
        for pair in self.pairs:
            if pair.under_way:
                self._resolve(pair)
        for slot in self._by_need:
            slot.advance()

    def _resolve(self, pair):
        if pair.resolve():
            return
        # All who find this out start all that follows from it before they wait, so no two wait for each other.
        self._plan_again()
        for other in self.pairs:
            if other.under_way:
                other.resolve()

    def finish(self, at_step=True):
        """Waits for everything, what the next forward needs first coming first."""
        while (pair := self._pair_that_is_there()) is not None:
            self._resolve(pair)
        self._await_states()
        for slot in self._by_need:
            # While the wire is busy, products are made of the factors that are there.
            while slot.on_its_way and (pair := self._pair_that_is_there()) is not None:
                self._resolve(pair)
            self.settle(slot)
        self._running.finish(write=at_step)
        self._buffers.finish(write=at_step)

    def leave(self):
        """This worker leaves: gradients that nobody read come to their end, too."""
        if self.failure is None and _backward_now() == _NO_BACKWARD:
            self.close()
            self.finish()

    def _pair_that_is_there(self):
        return next((pair for pair in self.pairs if pair.under_way and pair.is_there), None)

    def before_reading(self, slot):
        """Somebody wants to see the gradient."""
        if self.failure is not None:
            raise self.failure
        if _backward_now() == _NO_BACKWARD:
            # From another thread backward cannot be seen; then only its end is proof that it does not run.
            if self.is_open and (self._ended == self._backward or self._thread == threading.get_ident()):
                self.close()
            if slot.pair is not None:
                slot.pair.local_gradient()
        elif slot.bundled and slot.watched and not slot.bundle.has_left:
            raise UsageError(
                f"{slot.key}: a hook on this parameter reads its gradient in the middle of backward, but was put there after "
                "the workers agreed which small gradients travel together in this round; it would see this worker's own. "
                "Register such hooks before the first backward, or run one backward and step with the hook not reading"
            )
        if slot.under_way or (slot.pair is not None and slot.pair.under_way):
            self.settle(slot)

    def before_step(self, optimizer, has_closure, slots):
        """An optimizer is about to use the gradients; if no backward came since its last step, others may have one."""
        if self.failure is not None:
            raise self.failure
        if self.quiet or _backward_now() != _NO_BACKWARD:
            return  # steps of its own, as local SGD takes them; or of single parameters while backward runs
        if not self.is_open and self._stepped.get(optimizer, 0) == self.round and not has_closure:
            self.finish()
            self._update_plan()
            self._look_who_is_there()
            self._backward = None
            self._set_weight.take()
            self._begin_round()
        if self.is_open:
            self.close()
        self.finish()
        self._update_plan()
        self._stepped[optimizer] = self.round
        self._states.stepped(slots)
        if not has_closure:
            for slot in slots:
                if raw_grad(slot.parameter) is None and self.anyone_had(slot):
                    slot.dropped = True  # the others hear of it with the next round

    def mean_loss(self, loss):
        """What a closure returned, as all workers together see it."""
        if self.quiet or loss is None:
            return loss
        mean = np.array([float(loss.detach() if isinstance(loss, torch.Tensor) else loss)], dtype=np.float64)
        _api.push_pull(mean, name=f"{self.prefix}loss", weight=self.weight)
        return loss.new_tensor(mean[0]) if isinstance(loss, torch.Tensor) else float(mean[0])

    def after_step(self):
        """Backwards inside of the step, of a closure, leave statistics that are still under way."""
        if self.failure is None and not self.quiet and _backward_now() == _NO_BACKWARD:
            self._running.finish()
            self._buffers.finish()

    # Plans

    def _start_planning(self):
        self._admissions = _api._admissions
        self._planner = Planner(self.prefix.rstrip("."), self.use_sfb, says_dense=self.compress is None)
        for pair in self.pairs:
            pair.forget()
        self._buffers.forget()
        self.planning, self._looked_at = False, self.round
        self._plan_again()

    def _plan_again(self):
        """The next round goes dense everywhere and counts; the plan is made when it is over."""
        if not self.planning:
            self.planning, self._planned_from = True, self.round

    def _update_plan(self):
        """Between two rounds, at the first occasion, which every worker has: a step or the next backward."""
        if self.planning and self.round > self._planned_from:
            self._settle_plan()
        elif not self.planning and self.round != self._looked_at:
            self._looked_at = self.round
            changed = getattr(self._planner, "step", bool)()  # now and then it looks whether the link has changed
            if changed:
                self._apply_plan(self._planner.choices)

    def _settle_plan(self):
        for slot in self.slots:
            pair = slot.pair
            if pair is None:
                self._planner.saw(slot.key, slot.parameter.numel())
            elif pair.weight is slot:
                rows = pair.rows_to_plan_for()
                self._planner.saw(slot.key, slot.parameter.numel(), rows, pair.outputs, pair.inputs)
        try:
            choices = self._planner.settle()
        except UsageError as error:  # a worker has finished; every other one is told the same
            log.info("%s: all tensors stay dense: %s", self.prefix.rstrip("."), error)
            choices = {}
        self.planning, self._looked_at = False, self.round
        self._apply_plan(choices)

    def _apply_plan(self, choices):
        self._say_what_is_lossy(choices)
        for pair in self.pairs:
            choice = choices.get(pair.weight.key)
            pair.plan(choice.rows if choice is not None and choice.scheme == FACTORS else 0, pair.weight.priority)

    def _say_what_is_lossy(self, choices):
        """The planner does not know how what is not factors travels where somebody asked for a lossy scheme."""
        for slot in self.slots if self.compress is not None else ():
            said = slot.travels_as()
            if slot.key in choices and choices[slot.key].scheme != FACTORS and said != slot.said:
                slot.said = said
                log.info("%s: %s: %s", slot.key, *said)

    def guard(self):
        return Guard(self)
