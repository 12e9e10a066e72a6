//! The classes and functions that a pickle may name. None of them is ever run: each stands for what this program knows
//! about it.

use safetensors::Dtype;

/// A class or function of Python that a file of tensors needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch.Size`, a tuple.
    Size,
    /// `torch._utils._rebuild_tensor_v2`: a tensor on a storage that has a type.
    Tensor,
    /// `torch._utils._rebuild_tensor_v3`: a tensor on bytes, with its own type.
    TypedTensor,
    /// `torch._utils._rebuild_parameter` and `_rebuild_parameter_with_state`: a tensor and whether it is trained.
    Parameter,
    /// `torch._tensor._rebuild_from_type_v2`: a tensor with attributes.
    WithAttributes,
    /// `torch.Tensor` and its harmless subclasses.
    TensorClass,
    /// A storage of values of this type, as `torch.FloatStorage`.
    Storage(Dtype),
    /// `torch.storage.UntypedStorage`.
    UntypedStorage,
    /// A type of values, as `torch.float16`.
    Dtype(Dtype),
}

/// The global of this module and name, where it is one of those allowed.
pub(super) fn find(module: &str, name: &str) -> Option<Global> {
    Some(match (module, name) {
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("torch", "Size") => Global::Size,
        ("torch", "Tensor") => Global::TensorClass,
        ("torch.nn.parameter", "Parameter" | "Buffer") => Global::TensorClass,
        ("torch._utils", "_rebuild_tensor_v2") => Global::Tensor,
        ("torch._utils", "_rebuild_tensor_v3") => Global::TypedTensor,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Global::Parameter,
        ("torch._tensor", "_rebuild_from_type_v2") => Global::WithAttributes,
        ("torch.storage", "UntypedStorage") => Global::UntypedStorage,
        ("torch", name) => match name.strip_suffix("Storage") {
            Some(class) => Global::Storage(of_storage(class)?),
            None => Global::Dtype(of_name(name)?),
        },
        _ => return None,
    })
}

/// The type of the values of a storage class, by the class's name without `Storage`.
fn of_storage(class: &str) -> Option<Dtype> {
    Some(match class {
        "Double" => Dtype::F64,
        "Float" => Dtype::F32,
        "Half" => Dtype::F16,
        "BFloat16" => Dtype::BF16,
        "Long" => Dtype::I64,
        "Int" => Dtype::I32,
        "Short" => Dtype::I16,
        "Char" => Dtype::I8,
        "Byte" => Dtype::U8,
        "Bool" => Dtype::BOOL,
        "ComplexFloat" => Dtype::C64,
        _ => return None,
    })
}

/// The type of this name in Python. All have whole bytes.
fn of_name(name: &str) -> Option<Dtype> {
    Some(match name {
        "float64" => Dtype::F64,
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "float8_e4m3fn" => Dtype::F8_E4M3,
        "float8_e5m2" => Dtype::F8_E5M2,
        "float8_e8m0fnu" => Dtype::F8_E8M0,
        "float8_e4m3fnuz" => Dtype::F8_E4M3FNUZ,
        "float8_e5m2fnuz" => Dtype::F8_E5M2FNUZ,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint64" => Dtype::U64,
        "uint32" => Dtype::U32,
        "uint16" => Dtype::U16,
        "uint8" => Dtype::U8,
        "bool" => Dtype::BOOL,
        "complex64" => Dtype::C64,
        _ => return None,
    })
}
