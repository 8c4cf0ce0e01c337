//! Models that everybody knows, computed from their architecture. Batch norms are part of the convolution before them.

use super::model::{Kind, LayerOf, Model};

pub const NAMES: [&str; 4] = ["vgg16", "vgg19", "resnet50", "alexnet"];
/// What their papers and most benchmarks use for a worker.
const BATCH: u64 = 32;

pub fn model(name: &str) -> Option<Model> {
    let layers = match name {
        "vgg16" => vgg([2, 2, 3, 3, 3]),
        "vgg19" => vgg([2, 2, 4, 4, 4]),
        "resnet50" => resnet50(),
        "alexnet" => alexnet(),
        _ => return None,
    };
    Some(Model { name: name.into(), batch: BATCH, matrix_flops: None, optimizer_seconds: 0.0, layers })
}

/// `side`: of the square image that comes out.
fn conv(name: String, outputs: u64, inputs: u64, kernel: u64, side: u64, bias: bool) -> LayerOf {
    let weights = outputs * inputs * kernel * kernel;
    let flops = 2.0 * (BATCH * weights * side * side) as f64;
    LayerOf { flops: Some(flops), bias, kind: Kind::Conv, ..layer(name, vec![outputs, inputs, kernel, kernel]) }
}

fn linear(name: &str, outputs: u64, inputs: u64) -> LayerOf {
    LayerOf { bias: true, ..layer(name.into(), vec![outputs, inputs]) }
}

fn norm(name: String, channels: u64) -> LayerOf {
    LayerOf { kind: Kind::Other, bias: true, ..layer(name, vec![channels]) }
}

fn layer(name: String, shape: Vec<u64>) -> LayerOf {
    LayerOf {
        name,
        kind: Kind::Linear,
        shape,
        bias: false,
        rows: BATCH,
        flops: None,
        forward_seconds: None,
        backward_seconds: None,
    }
}

/// `counts`: convolutions in each of the five blocks.
fn vgg(counts: [usize; 5]) -> Vec<LayerOf> {
    let (mut layers, mut inputs) = (Vec::new(), 3);
    let blocks = [(64, 224), (128, 112), (256, 56), (512, 28), (512, 14)];
    for (block, ((width, side), count)) in blocks.into_iter().zip(counts).enumerate() {
        for i in 0..count {
            layers.push(conv(format!("conv{}_{}", block + 1, i + 1), width, inputs, 3, side, true));
            inputs = width;
        }
    }
    layers.extend([linear("fc6", 4096, 512 * 7 * 7), linear("fc7", 4096, 4096), linear("fc8", 1000, 4096)]);
    layers
}

fn resnet50() -> Vec<LayerOf> {
    let mut layers = vec![conv("conv1".into(), 64, 3, 7, 112, false), norm("bn1".into(), 64)];
    let mut inputs = 64;
    for (stage, (width, blocks, side)) in [(64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)].into_iter().enumerate()
    {
        for block in 0..blocks {
            let name = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            // The first block of a stage halves the image in its second convolution.
            let before = if block == 0 && stage > 0 { 2 * side } else { side };
            for (i, (outputs, from, kernel, side)) in
                [(width, inputs, 1, before), (width, width, 3, side), (4 * width, width, 1, side)]
                    .into_iter()
                    .enumerate()
            {
                layers.push(conv(name(&format!("conv{}", i + 1)), outputs, from, kernel, side, false));
                layers.push(norm(name(&format!("bn{}", i + 1)), outputs));
            }
            if block == 0 {
                layers.push(conv(name("downsample"), 4 * width, inputs, 1, side, false));
                layers.push(norm(name("downsample.bn"), 4 * width));
            }
            inputs = 4 * width;
        }
    }
    layers.push(linear("fc", 1000, inputs));
    layers
}

fn alexnet() -> Vec<LayerOf> {
    let convs = [(64, 3, 11, 55), (192, 64, 5, 27), (384, 192, 3, 13), (256, 384, 3, 13), (256, 256, 3, 13)];
    let mut layers: Vec<LayerOf> = Vec::new();
    for (i, (outputs, inputs, kernel, side)) in convs.into_iter().enumerate() {
        layers.push(conv(format!("conv{}", i + 1), outputs, inputs, kernel, side, true));
    }
    layers.extend([linear("fc6", 4096, 256 * 6 * 6), linear("fc7", 4096, 4096), linear("fc8", 1000, 4096)]);
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts that torchvision's models have.
    #[test]
    fn they_have_as_many_parameters_as_everybody_says() {
        for (name, elements) in
            [("vgg16", 138_357_544), ("vgg19", 143_667_240), ("resnet50", 25_557_032), ("alexnet", 61_100_840)]
        {
            assert_eq!(model(name).map(|model| model.elements()), Some(elements), "{name}");
        }
        assert!(NAMES.iter().all(|name| model(name).is_some()) && model("vgg").is_none());
    }

    /// Multiply-adds of one image, in billions, as torchvision gives them.
    #[test]
    fn they_compute_as_much_as_everybody_says() {
        for (name, billions) in [("vgg16", 15.47), ("vgg19", 19.6), ("resnet50", 4.09), ("alexnet", 0.71)] {
            let layers = model(name).expect("known").layers(1, 2e9);
            let forward: f64 = layers.iter().map(|layer| layer.forward).sum();
            assert!((forward - billions).abs() < 0.02 * billions, "{name}: {forward}");
        }
    }
}
