"""The weight and bias of a linear layer, whose gradients may travel together as factors.

In a round that plans, the gradient is computed and sent whole while the rows are counted. Where the planner then chose
factors, backward leaves the rows here; they leave when the weight's last use in that backward has been gone through.
"""

import torch

from .. import _api
from .._factors import Factors
from ._parameter import raw_grad, set_raw_grad
from ._slot import nobody_else_holds


class Pair:
    def __init__(self, reducer, weight_slot, bias_slot):
        self.reducer, self.weight, self.bias = reducer, weight_slot, bias_slot
        self.slots = [slot for slot in (weight_slot, bias_slot) if slot is not None]
        for slot in self.slots:
            slot.pair = self
        self.outputs, self.inputs = weight_slot.parameter.shape
        self.barred = None  # why it has to stay dense, whatever the planner says
        self.under_way = False
        self._factors, self._rows, self._sent = None, [], None
        self._counted, self._most, self._strikes = 0, 0, 0
        self._buffer, self._failure = None, None

    @property
    def chosen(self):
        """Whether this round goes by factors."""
        here = self.weight.joined if self.reducer.is_open else self.weight.takes_part
        return self._factors is not None and not self.reducer.planning and here

    @property
    def is_there(self):
        """Whether everybody's factors have come."""
        return self.under_way and self._failure is None and self._factors.done()

    @property
    def interested(self):
        """Whether forward should go through our function."""
        return self.chosen or (self.reducer.planning and self.barred is None)

    # Planning

    def rows_to_plan_for(self):
        """The most rows that a round has had; 0 rules factors out."""
        if self.reducer.use_sfb is False:
            return 1  # nothing is counted, nor matters: the planner says that factors are off
        self._most, self._counted = max(self._most, self._counted), 0
        if self.weight.parameter.shape != (self.outputs, self.inputs):
            self.barred = "its shape has changed"
        return 0 if self.barred else self._most

    def plan(self, rows, priority):
        """Factors of up to so many rows from now on; dense for 0."""
        if not rows:
            self._factors = None
        elif self._factors is None or self._factors.rows != rows:
            self._factors = Factors(self.weight.key, rows, self.outputs, self.inputs, priority)

    def forget(self):
        self.local_gradient()
        self._factors, self._most, self._counted = None, 0, 0

    # Backward

    def take(self, x, dy):
        """Rows from backward; False where their product is needed here."""
        with self.reducer.guard():
            self.reducer.touched(self.weight)
        if self.reducer.failure is not None:
            return False
        if not self.chosen:
            self._counted += len(x)
            return False
        self._rows.append((x.detach().clone(), dy.detach().clone()))
        if self.reducer.quiet and self._row_count() > self._factors.rows:
            self._materialise()  # more than can ever be sent: as memory, the product is smaller
        return True

    @property
    def has_rows(self):
        """Whether backwards have left something here that has not been sent."""
        return bool(self._rows)

    def _row_count(self):
        return sum(len(x) for x, _ in self._rows)

    def _materialise(self):
        """Makes gradients of this worker's own rows."""
        rows, self._rows = self._rows, []
        for x, dy in rows:
            self._add(x, dy)

    def _add(self, x, dy):
        for slot, gradient in ((self.weight, lambda: dy.t().matmul(x)), (self.bias, lambda: dy.sum(0))):
            # A bias may be frozen since forward; then nothing is to be added.
            if slot is None or not (slot.takes_part if self.reducer.quiet else slot.joined):
                continue
            there = raw_grad(slot.parameter)
            if there is None:
                set_raw_grad(slot.parameter, gradient())
            else:
                there.add_(gradient())
            slot.unsynced = True

    def local_gradient(self):
        """For a script that reads a gradient before it is exchanged: the rows become one."""
        if self._rows and not self.under_way:
            with torch.no_grad():
                self._materialise()

    # The exchange

    @torch.no_grad()
    def start(self):
        """Sends the rows; or, if they do not fit or a part is a gradient already, says to all that this goes dense."""
        count, self._sent = self._row_count(), None
        mixed = any(slot.unsynced for slot in self.slots)
        self._most = max(self._most, count)
        if mixed:
            self._strikes += 1
            if self._strikes > 1:
                self.barred = "its weight has gradients from elsewhere, too"
        else:
            self._strikes = 0
        for slot in self.slots:
            slot.had, slot.round = mixed or count > 0, self.reducer.round
        if mixed or count > self._factors.rows:
            self._materialise()
            self._factors.refuse(count, self.reducer.weight)
        else:
            rows, self._rows = self._rows, []
            self._sent = _join(rows, self.inputs, self.outputs)
            self._factors.start(*(part.to("cpu").numpy() for part in self._sent), self.reducer.weight)
        self.under_way = True

    @torch.no_grad()
    def resolve(self):
        """Waits for everybody's factors. False if somebody's did not fit: then the gradients are under way, dense."""
        if self._failure is not None:
            raise self._failure
        try:
            gathered = self._factors.wait()
        except BaseException as error:
            self._failure = error
            raise
        self.under_way = False
        sent, self._sent = self._sent, None
        if gathered is None:
            self._most = max(self._most, self._factors.needed if sent is not None else 0)
            if sent is not None and len(sent[0]):
                self._add(*sent)
            for slot in self.slots:
                slot.push()
            return False
        if self.bias is not None and self.bias.unsynced:
            raise _api.UsageError(
                f"{self.bias.key}: this bias is used outside of its nn.Linear, too, so its gradient is not only its "
                "layer's; call distribute(..., use_sfb=False)"
            )
        if self.weight.had or self.reducer.anyone_had(self.weight):
            self._rebuild(gathered)
        return True

    def _rebuild(self, gathered):
        """The same product of the same bytes on every worker (GRAD-3), to where the last gradient lay."""
        device = self.weight.parameter.device
        x, dy = (torch.from_numpy(part).to(device) for part in (gathered.x, gathered.dy))
        there = raw_grad(self.weight.parameter)
        if there is not None:
            there.addmm_(dy.t(), x)
        else:
            set_raw_grad(self.weight.parameter, torch.mm(dy.t(), x, out=self._space()))
        if self.bias is not None and self.bias.joined:
            there = raw_grad(self.bias.parameter)
            if there is not None:
                there.add_(dy.sum(0))
            else:
                set_raw_grad(self.bias.parameter, dy.sum(0))

    def _space(self):
        """Memory for the gradient: last step's, if nobody holds it any more (new pages are slow to come by)."""
        device = self.weight.parameter.device
        kept = self._buffer
        if kept is None or kept.device != device or not nobody_else_holds(kept):
            self._buffer = torch.empty(self.outputs, self.inputs, dtype=torch.float32, device=device)
        return self._buffer.data


def _join(rows, inputs, outputs):
    if len(rows) == 1:
        return rows[0]
    if not rows:
        return torch.empty(0, inputs), torch.empty(0, outputs)
    return torch.cat([x for x, _ in rows]), torch.cat([dy for _, dy in rows])
