//! Names of numbers, and rates.

use core::ffi::{c_char, c_int, c_uint};

use crate::{names, rates};

/// The name of a kind of node.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node_type: c_int) -> *const c_char {
    names::node_type(node_type).as_ptr()
}

/// The name of a port's state.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(port_state: c_uint) -> *const c_char {
    names::port_state(port_state).as_ptr()
}

/// The name of an asynchronous event.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: c_uint) -> *const c_char {
    names::event_type(event).as_ptr()
}

/// The name of a completion's status.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_uint) -> *const c_char {
    names::wc_status(status).as_ptr()
}

/// The name of a send request's operation: `ibv_wr_opcode_str`, which is private to rdma-core.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_wr_opcode_str(opcode: c_uint) -> *const c_char {
    names::send_opcode(opcode).as_ptr()
}

/// The multiple of 2.5 Gbit/s of a rate; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: c_uint) -> c_int {
    rates::multiple(rate)
}

/// The rate with this multiple of 2.5 Gbit/s; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_uint {
    rates::of_multiple(mult)
}

/// The Mbit/s of a rate; -1 if there is no such rate.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: c_uint) -> c_int {
    rates::mbit_per_second(rate)
}

/// The rate with these Mbit/s; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_uint {
    rates::of_mbit_per_second(mbps)
}
