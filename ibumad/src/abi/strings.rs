//! Names of numbers.

use core::ffi::c_char;

use crate::names;

/// The name of a management class.
#[unsafe(no_mangle)]
pub extern "C" fn umad_class_str(mgmt_class: u8) -> *const c_char {
    names::class(mgmt_class).as_ptr()
}

/// The name of a method.
#[unsafe(no_mangle)]
pub extern "C" fn umad_method_str(mgmt_class: u8, method: u8) -> *const c_char {
    names::method(mgmt_class, method).as_ptr()
}

/// The name of an attribute, whose id is in network byte order.
#[unsafe(no_mangle)]
pub extern "C" fn umad_attribute_str(mgmt_class: u8, attr_id: u16) -> *const c_char {
    names::attribute(mgmt_class, u16::from_be(attr_id)).as_ptr()
}

/// What a status says, in network byte order, that all classes share.
#[unsafe(no_mangle)]
pub extern "C" fn umad_common_mad_status_str(status: u16) -> *const c_char {
    names::common_status(u16::from_be(status)).as_ptr()
}

/// What a status of subnet administration says, in network byte order.
#[unsafe(no_mangle)]
pub extern "C" fn umad_sa_mad_status_str(status: u16) -> *const c_char {
    names::sa_status(u16::from_be(status)).as_ptr()
}
