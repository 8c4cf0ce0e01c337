//! The arithmetic: weigh, add, scale, round. Pure loops over slices (CORE-1), written so that
//! the compiler turns them into vector code; a second copy of each is compiled for AVX2.

use crate::dtype::DType;
use half::{bf16, f16};

/// An element as it lies in the user's memory, and the type its sum is kept in.
trait Element: Copy {
    type Sum: Copy + std::ops::Add<Output = Self::Sum> + std::ops::AddAssign + std::ops::Mul<Output = Self::Sum>;
    fn widen(self) -> Self::Sum;
    fn round(sum: Self::Sum) -> Self;
    fn factor(factor: f64) -> Self::Sum;
}

macro_rules! element {
    ($t:ty, $sum:ty, $widen:expr, $round:expr) => {
        impl Element for $t {
            type Sum = $sum;
            #[inline(always)]
            fn widen(self) -> $sum {
                $widen(self)
            }
            #[inline(always)]
            fn round(sum: $sum) -> $t {
                $round(sum)
            }
            #[inline(always)]
            fn factor(factor: f64) -> $sum {
                factor as $sum
            }
        }
    };
}
element!(f32, f32, |x| x, |x| x);
element!(f64, f64, |x| x, |x| x);
element!(bf16, f32, bf16::to_f32, bf16::from_f32);
element!(f16, f32, f16::to_f32, f16::from_f32);

#[inline(always)]
fn load_loop<T: Element>(x: &[T], weight: f64, sum: &mut [T::Sum]) {
    let w = T::factor(weight);
    if weight == 1.0 {
        for (s, &x) in sum.iter_mut().zip(x) {
            *s = x.widen();
        }
    } else {
        for (s, &x) in sum.iter_mut().zip(x) {
            *s = x.widen() * w;
        }
    }
}

#[inline(always)]
fn add_loop<T: Element>(x: &[T], weight: f64, sum: &mut [T::Sum]) {
    let w = T::factor(weight);
    if weight == 1.0 {
        for (s, &x) in sum.iter_mut().zip(x) {
            *s += x.widen();
        }
    } else {
        for (s, &x) in sum.iter_mut().zip(x) {
            *s += x.widen() * w;
        }
    }
}

#[inline(always)]
fn store_loop<T: Element>(sum: &[T::Sum], scale: f64, out: &mut [T]) {
    let k = T::factor(scale);
    if scale == 1.0 {
        for (o, &s) in out.iter_mut().zip(sum) {
            *o = T::round(s);
        }
    } else {
        for (o, &s) in out.iter_mut().zip(sum) {
            *o = T::round(s * k);
        }
    }
}

/// `sum = x = (sum + x * weight) * scale`, for types whose sum has their own width.
#[inline(always)]
fn close_loop<T: Element<Sum = T> + std::ops::Add<Output = T> + std::ops::Mul<Output = T>>(
    sum: &mut [T],
    x: &mut [T],
    weight: f64,
    scale: f64,
) {
    let (w, k) = (T::factor(weight), T::factor(scale));
    if weight == 1.0 && scale == 1.0 {
        for (s, x) in sum.iter_mut().zip(x) {
            let v = *s + *x;
            (*s, *x) = (v, v);
        }
    } else {
        for (s, x) in sum.iter_mut().zip(x) {
            let v = (*s + *x * w) * k;
            (*s, *x) = (v, v);
        }
    }
}

/// Bytes seen as elements. Tensors and buffers are aligned to at least their element size.
fn elements<T>(bytes: &[u8]) -> &[T] {
    // SAFETY: T is a plain float type for which every bit pattern is valid.
    let (head, body, tail) = unsafe { bytes.align_to::<T>() };
    assert!(head.is_empty() && tail.is_empty(), "misaligned tensor memory");
    body
}

fn elements_mut<T>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: T is a plain float type for which every bit pattern is valid.
    let (head, body, tail) = unsafe { bytes.align_to_mut::<T>() };
    assert!(head.is_empty() && tail.is_empty(), "misaligned tensor memory");
    body
}

/// One loop over bytes, compiled twice (baseline and AVX2) and chosen when it is called.
macro_rules! two_builds {
    ($name:ident, $wide:ident, ($($arg:ident: $ty:ty),+) => $body:expr) => {
        #[inline(always)]
        fn $name<T: Element>($($arg: $ty),+) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn $wide<T: Element>($($arg: $ty),+) {
                    $body
                }
                if is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
                {
                    // SAFETY: the features were just detected.
                    return unsafe { $wide::<T>($($arg),+) };
                }
            }
            $body
        }
    };
}
two_builds!(load_as, load_wide, (x: &[u8], weight: f64, sum: &mut [u8]) => load_loop::<T>(elements(x), weight, elements_mut(sum)));
two_builds!(add_as, add_wide, (x: &[u8], weight: f64, sum: &mut [u8]) => add_loop::<T>(elements(x), weight, elements_mut(sum)));
two_builds!(store_as, store_wide, (sum: &[u8], scale: f64, out: &mut [u8]) => store_loop::<T>(elements(sum), scale, elements_mut(out)));

two_builds!(close_f32, close_f32_wide, (sum: &mut [u8], x: &mut [u8], weight: f64, scale: f64) => close_loop::<f32>(elements_mut(sum), elements_mut(x), weight, scale));
two_builds!(close_f64, close_f64_wide, (sum: &mut [u8], x: &mut [u8], weight: f64, scale: f64) => close_loop::<f64>(elements_mut(sum), elements_mut(x), weight, scale));

/// `sum = x = (sum + x * weight) * scale`: the last contribution, written to both places in one pass.
/// Only for types that are summed in their own width.
pub fn close(dtype: DType, sum: &mut [u8], x: &mut [u8], weight: f64, scale: f64) {
    match dtype {
        DType::F32 => close_f32::<f32>(sum, x, weight, scale),
        DType::F64 => close_f64::<f64>(sum, x, weight, scale),
        DType::Bf16 | DType::F16 => unreachable!("halves are summed in f32"),
    }
}

/// `sum *= scale` in place, for types that are summed in their own width.
pub fn scale(dtype: DType, sum: &mut [u8], scale: f64) {
    if scale == 1.0 {
        return;
    }
    match dtype {
        DType::F32 => elements_mut::<f32>(sum).iter_mut().for_each(|x| *x *= scale as f32),
        DType::F64 => elements_mut::<f64>(sum).iter_mut().for_each(|x| *x *= scale),
        DType::Bf16 | DType::F16 => unreachable!("halves are summed in f32"),
    }
}

/// `sum = x * weight`: the first contribution to a chunk.
pub fn load(dtype: DType, x: &[u8], weight: f64, sum: &mut [u8]) {
    match dtype {
        DType::F32 => load_as::<f32>(x, weight, sum),
        DType::F64 => load_as::<f64>(x, weight, sum),
        DType::Bf16 => load_as::<bf16>(x, weight, sum),
        DType::F16 => load_as::<f16>(x, weight, sum),
    }
}

/// `sum += x * weight`: every further contribution.
pub fn add(dtype: DType, x: &[u8], weight: f64, sum: &mut [u8]) {
    match dtype {
        DType::F32 => add_as::<f32>(x, weight, sum),
        DType::F64 => add_as::<f64>(x, weight, sum),
        DType::Bf16 => add_as::<bf16>(x, weight, sum),
        DType::F16 => add_as::<f16>(x, weight, sum),
    }
}

/// `out = round(sum * scale)`: the finished chunk in the tensor's own type.
pub fn store(dtype: DType, sum: &[u8], scale: f64, out: &mut [u8]) {
    match dtype {
        DType::F32 => store_as::<f32>(sum, scale, out),
        DType::F64 => store_as::<f64>(sum, scale, out),
        DType::Bf16 => store_as::<bf16>(sum, scale, out),
        DType::F16 => store_as::<f16>(sum, scale, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T>(values: &[T]) -> &[u8] {
        // SAFETY: plain floats have no padding.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
    }
    fn bytes_mut<T>(values: &mut [T]) -> &mut [u8] {
        // SAFETY: plain floats accept every bit pattern.
        unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), std::mem::size_of_val(values)) }
    }

    #[test]
    fn weighted_mean_in_f32() {
        let (a, b) = (vec![1.0f32; 1003], vec![4.0f32; 1003]);
        let (mut sum, mut out) = (vec![0.0f32; 1003], vec![0.0f32; 1003]);
        load(DType::F32, bytes(&a), 2.0, bytes_mut(&mut sum));
        add(DType::F32, bytes(&b), 1.0, bytes_mut(&mut sum));
        store(DType::F32, bytes(&sum), 1.0 / 3.0, bytes_mut(&mut out));
        assert!(out.iter().all(|&x| (x - 2.0).abs() < 1e-6), "{:?}", &out[..4]);
    }

    #[test]
    fn halves_round_once_not_at_every_addition() {
        // 256 + 1 is not a bf16; summed in bf16 the ones would all be lost.
        let (big, one) = ([bf16::from_f32(256.0)], [bf16::from_f32(1.0)]);
        let (mut sum, mut out) = ([0.0f32], [bf16::ZERO]);
        load(DType::Bf16, bytes(&big), 1.0, bytes_mut(&mut sum));
        for _ in 0..16 {
            add(DType::Bf16, bytes(&one), 1.0, bytes_mut(&mut sum));
        }
        store(DType::Bf16, bytes(&sum), 1.0, bytes_mut(&mut out));
        assert_eq!(out[0].to_f32(), 272.0);
    }

    #[test]
    fn f16_and_f64_keep_their_precision() {
        let (mut sum, mut out) = ([0.0f32; 9], [f16::ZERO; 9]);
        load(DType::F16, bytes(&[f16::from_f32(0.5); 9]), 1.0, bytes_mut(&mut sum));
        add(DType::F16, bytes(&[f16::from_f32(0.25); 9]), 1.0, bytes_mut(&mut sum));
        store(DType::F16, bytes(&sum), 0.5, bytes_mut(&mut out));
        assert_eq!(out[8].to_f32(), 0.375);

        let (mut sum, mut out) = ([0.0f64; 3], [0.0f64; 3]);
        load(DType::F64, bytes(&[1e-17f64; 3]), 1.0, bytes_mut(&mut sum));
        add(DType::F64, bytes(&[1e-17f64; 3]), 1.0, bytes_mut(&mut sum));
        store(DType::F64, bytes(&sum), 1.0, bytes_mut(&mut out));
        assert_eq!(out, [2e-17; 3]);
    }
}
