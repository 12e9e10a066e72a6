//! What pointers of C mean. All of them must be valid for what the header says, or NULL.

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::{ptr, slice};

use crate::status::{Ended, qsf_status};

fn usage(problem: String) -> anyhow::Error {
    Ended(qsf_status::QSF_USAGE, problem).into()
}

/// What `pointer` points to.
///
/// # Safety
/// It is valid for reads as long as the result is used, or NULL.
pub unsafe fn object<'a, T>(pointer: *const T, name: &str) -> anyhow::Result<&'a T> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| usage(format!("{name} is NULL")))
}

/// Where a result goes.
///
/// # Safety
/// It is valid for writes as long as the result is used and nobody else uses it, or NULL.
pub unsafe fn place<'a, T>(pointer: *mut T, name: &str) -> anyhow::Result<&'a mut T> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or_else(|| usage(format!("{name} is NULL")))
}

/// A text that ends with a zero.
///
/// # Safety
/// It is such a text, which does not change as long as the result is used, or NULL.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> anyhow::Result<&'a str> {
    if pointer.is_null() {
        return Err(usage(format!("{name} is NULL")));
    }
    // SAFETY: as the caller promises; it is not NULL.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| usage(format!("{name} is not UTF-8: {error}")))
}

/// [`text`], or `None` for NULL.
///
/// # Safety
/// As of [`text`].
pub unsafe fn optional_text<'a>(pointer: *const c_char, name: &str) -> anyhow::Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { text(pointer, name) }.map(Some)
}

/// A name of a file.
///
/// # Safety
/// As of [`text`].
pub unsafe fn path(pointer: *const c_char, name: &str) -> anyhow::Result<PathBuf> {
    // SAFETY: as the caller promises.
    Ok(PathBuf::from(unsafe { text(pointer, name) }?))
}

/// `count` values; none may be at NULL.
///
/// # Safety
/// It is valid for reads of as many as long as the result is used, or NULL.
pub unsafe fn values<'a, T>(pointer: *const T, count: usize, name: &str) -> anyhow::Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(usage(format!("{name} is NULL")));
    }
    // SAFETY: as the caller promises; it is not NULL.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Copies `found` to a buffer of `capacity` values, and tells how many there are, also where they do not fit: a caller asks for the
/// size with a buffer of none.
///
/// # Safety
/// `buffer` is valid for writes of `capacity` values, or NULL where that is 0; `length` is valid for a write, or NULL.
pub unsafe fn give<T: Copy>(
    found: &[T],
    buffer: *mut T,
    capacity: usize,
    length: *mut usize,
) -> anyhow::Result<()> {
    // SAFETY: as the caller promises.
    *unsafe { place(length, "length") }? = found.len();
    if found.len() > capacity {
        let problem = format!("{} values do not fit a buffer of {capacity}", found.len());
        return Err(Ended(qsf_status::QSF_BUFFER_TOO_SMALL, problem).into());
    }
    if !found.is_empty() {
        // Checked first: it is written below.
        // SAFETY: as the caller promises.
        unsafe { place(buffer, "buffer") }?;
        // SAFETY: the buffer has room for `capacity` values, which are at least as many, and is nobody else's.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), buffer, found.len()) };
    }
    Ok(())
}

/// A text of ours that the caller frees by `qsf_string_free`.
///
/// # Safety
/// `out` is valid for a write, or NULL.
pub unsafe fn give_string(text: String, out: *mut *mut c_char) -> anyhow::Result<()> {
    // SAFETY: as the caller promises.
    let out = unsafe { place(out, "out") }?;
    *out = CString::new(text).map_err(|_| usage("a text with a zero byte".into()))?.into_raw();
    Ok(())
}
