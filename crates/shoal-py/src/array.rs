//! A NumPy array as the engine needs it: type, shape, and the place of its bytes.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use shoal_sync::{DType, TensorSpec};

/// Borrowed for as long as the caller keeps the array.
pub struct View {
    pub spec: TensorSpec,
    pub at: *mut u8,
}

/// Refuses what cannot be worked on in place, and says how to mend it. `meant`: what the bits of unsigned numbers are, for types
/// that NumPy itself does not have.
pub fn view(array: &Bound<'_, PyAny>, priority: u16, meant: Option<&str>) -> PyResult<View> {
    let Ok(array) = array.cast::<PyUntypedArray>() else {
        let kind = array.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected a numpy.ndarray, got {kind}")));
    };
    let name: String = array.dtype().getattr("name")?.extract()?;
    let dtype = match (name.as_str(), meant) {
        ("uint16", Some("bfloat16")) => DType::Bf16,
        ("uint16", Some("float16")) => DType::F16,
        (name, Some(meant)) if name != meant => {
            let message =
                format!("dtype is {meant:?}, but the array is of {name}; bfloat16 and float16 may be given as uint16");
            return Err(PyTypeError::new_err(message));
        }
        ("float32", _) => DType::F32,
        ("float64", _) => DType::F64,
        ("float16", _) => DType::F16,
        ("bfloat16", _) => DType::Bf16,
        (other, _) => {
            let message = format!(
                "arrays of {other} cannot be summed; use float32, float64, float16 or bfloat16 (or uint16 with dtype=\"bfloat16\")"
            );
            return Err(PyTypeError::new_err(message));
        }
    };
    if array.dtype().is_native_byteorder() == Some(false) {
        let message = "the array's byte order is not this machine's; use array.astype(array.dtype.newbyteorder(\"=\"))";
        return Err(PyTypeError::new_err(message));
    }
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("the array is not C-contiguous; use numpy.ascontiguousarray"));
    }
    // SAFETY: the array object is alive while we hold a reference to it, and its header is read under the GIL.
    let (flags, data) = unsafe {
        let object = &*array.as_array_ptr();
        (object.fields.flags, object.fields.data)
    };
    if flags & numpy::npyffi::NPY_ARRAY_WRITEABLE == 0 {
        return Err(PyValueError::new_err("the array is read-only, but the result is written into it; pass a copy"));
    }
    Ok(View { spec: TensorSpec { dtype, shape: array.shape().to_vec(), priority }, at: data.cast() })
}
