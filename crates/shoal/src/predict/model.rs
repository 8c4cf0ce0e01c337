//! A model as the planner needs it: layers in the order of the forward pass, what each computes and what gradient it has.

use serde::Serialize;
use shoal_sync::scheme::{Layer, Tensor};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Has factors.
    Linear,
    Conv,
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LayerOf {
    pub name: String,
    pub kind: Kind,
    /// The weight's; of a linear layer outputs and inputs. Empty: no gradient.
    pub shape: Vec<u64>,
    /// As many more numbers as the shape's first.
    pub bias: bool,
    /// Rows that a linear layer multiplies in one step: the batch, times the positions of a sequence.
    pub rows: u64,
    /// Of the forward pass of one step.
    pub flops: Option<f64>,
    pub forward_seconds: Option<f64>,
    pub backward_seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub name: String,
    /// All figures of the layers are for so many samples.
    pub batch: u64,
    /// Measured where the description was made.
    pub matrix_flops: Option<f64>,
    pub optimizer_seconds: f64,
    pub layers: Vec<LayerOf>,
}

impl LayerOf {
    pub fn elements(&self) -> u64 {
        self.weight().saturating_add(self.bias())
    }

    fn weight(&self) -> u64 {
        match self.shape.as_slice() {
            [] => 0,
            shape => shape.iter().fold(1u64, |all, n| all.saturating_mul(*n)),
        }
    }

    fn bias(&self) -> u64 {
        if self.bias { self.shape.first().copied().unwrap_or(0) } else { 0 }
    }

    fn flops(&self) -> f64 {
        let product = || 2.0 * self.rows as f64 * self.shape.iter().map(|n| *n as f64).product::<f64>();
        self.flops.unwrap_or_else(|| if self.kind == Kind::Linear { product() } else { 0.0 })
    }

    fn tensor(&self, scale: f64) -> Option<Tensor> {
        let weight = match (self.kind, self.shape.as_slice()) {
            (Kind::Linear, [outputs, inputs]) => {
                let rows = (self.rows as f64 * scale).ceil() as u64;
                Tensor::linear(rows.max(1), *outputs, *inputs)
            }
            _ => Tensor::plain(self.weight()),
        };
        (weight.elements > 0).then(|| weight.with_bias(self.bias()))
    }
}

impl Model {
    pub fn elements(&self) -> u64 {
        self.layers.iter().fold(0, |all, layer| all.saturating_add(layer.elements()))
    }

    /// For `batch` samples on processors of this speed. Backward is two products where forward is one.
    pub fn layers(&self, batch: u64, flops: f64) -> Vec<Layer> {
        let scale = batch as f64 / self.batch as f64;
        let all = self.elements().max(1) as f64;
        let layer = |layer: &LayerOf| Layer {
            name: layer.name.clone(),
            tensor: layer.tensor(scale),
            forward: scale * layer.forward_seconds.unwrap_or_else(|| layer.flops() / flops),
            backward: scale * layer.backward_seconds.unwrap_or_else(|| 2.0 * layer.flops() / flops),
            update: self.optimizer_seconds * layer.elements() as f64 / all,
        };
        self.layers.iter().map(layer).collect()
    }
}
