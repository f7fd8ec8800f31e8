//! Opened ports: agents, sending and receiving.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd};

use mad::umad::AgentRequest;
use rustix::io::Errno;
use wire::Format as _;
use wire::umad::UserMadHeader;

use super::{RegistrationAttributes, UserMad, fail, mads, text};
use crate::client::{self, Received, Result};
use crate::device;

/// The vendor of registrations that name none: OpenIB.
const OPENIB: [u8; 3] = [0x00, 0x14, 0x05];
/// `UMAD_USER_RMPP`, the only flag.
const USER_RMPP: u32 = 1;
/// The shortest MAD that is sent: up to the end of RMPP's header.
const MAD_BYTES_MIN: usize = 36;
/// Words of a mask of methods.
const MASK_WORDS: usize = 16 / size_of::<c_long>();

/// The descriptor of a port.
///
/// # Safety
/// The program does not close it meanwhile.
unsafe fn borrow<'a>(fd: c_int) -> Result<BorrowedFd<'a>> {
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is no -1, and stays open as the caller promises. One that is not open at all is refused by
    // the system in each call.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Opens a port; its descriptor.
///
/// # Safety
/// The name is null or a string.
unsafe fn open(ca_name: *const c_char, portnum: c_int, needs_smi: bool) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { text(ca_name) };
    if name.is_none() && !ca_name.is_null() {
        return fail(Errno::NODEV);
    }
    let opened = u8::try_from(portnum)
        .map_err(|_| Errno::NODEV)
        .and_then(|number| device::resolve(name, number, needs_smi))
        .and_then(|(device, port)| client::open(device.position, &device.place, port));
    match opened {
        Ok(descriptor) => descriptor.into_raw_fd(),
        Err(error) => fail(error),
    }
}

/// Opens a port of an adapter; null and 0: of whichever is best. Its descriptor.
///
/// # Safety
/// The name is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_open_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(ca_name, portnum, false) }
}

/// As [`umad_open_port`], of those that have subnet management.
///
/// # Safety
/// The name is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_open_smi_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(ca_name, portnum, true) }
}

/// Closes a port.
#[unsafe(no_mangle)]
pub extern "C" fn umad_close_port(fd: c_int) -> c_int {
    if fd >= 0 {
        // SAFETY: the program gives up the descriptor that it got from umad_open_port. If it is not open any
        // more, closing fails without effect.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    0
}

/// The descriptor that a program polls: the port's own.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_fd(fd: c_int) -> c_int {
    fd
}

fn register(fd: c_int, agent: AgentRequest) -> Result<u32> {
    // SAFETY: the program keeps its port open while it registers agents of it.
    let descriptor = unsafe { borrow(fd) }?;
    client::register(descriptor, agent)
}

/// The queue pair of a class.
fn queue_pair(class: u8) -> u8 {
    u8::from(class != 0x01 && class != 0x81)
}

/// A mask of methods as C has it; all zero for a null pointer.
///
/// # Safety
/// The pointer is null or to as many words as a mask has.
unsafe fn methods(mask: *const c_long) -> u128 {
    if mask.is_null() {
        return 0;
    }
    let mut methods = 0;
    for word in (0..MASK_WORDS).rev() {
        // SAFETY: it is one of the mask's words, as the caller promises.
        let bits = unsafe { mask.add(word).read_unaligned() };
        methods = methods << c_long::BITS | u128::from(bits.cast_unsigned());
    }
    methods
}

fn registered(agent: Result<u32>) -> c_int {
    match agent.map(c_int::try_from) {
        Ok(Ok(agent)) => agent,
        Ok(Err(_)) => fail(Errno::NOMEM),
        Err(error) => {
            fail(error);
            -Errno::PERM.raw_os_error()
        }
    }
}

/// Registers an agent; its number.
///
/// # Safety
/// The mask is null or has its words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register(
    fd: c_int,
    mgmt_class: c_int,
    mgmt_version: c_int,
    rmpp_version: u8,
    method_mask: *const c_long,
) -> c_int {
    let [.., class] = mgmt_class.to_be_bytes();
    let [.., version] = mgmt_version.to_be_bytes();
    let agent = AgentRequest {
        class,
        version,
        qpn: queue_pair(class),
        oui: OPENIB,
        rmpp_version,
        user_rmpp: false,
        // SAFETY: as the caller promises.
        methods: unsafe { methods(method_mask) },
    };
    let in_range = u8::try_from(mgmt_class).is_ok() && u8::try_from(mgmt_version).is_ok();
    registered(match in_range {
        true => register(fd, agent),
        false => Err(Errno::INVAL),
    })
}

/// Registers an agent of a vendor's class; its number.
///
/// # Safety
/// `oui` is null or three bytes; the mask is null or has its words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register_oui(
    fd: c_int,
    mgmt_class: c_int,
    rmpp_version: u8,
    oui: *const u8,
    method_mask: *const c_long,
) -> c_int {
    let class = u8::try_from(mgmt_class).unwrap_or_default();
    if !wire::MgmtClass(class).has_oui() || oui.is_null() {
        return fail(Errno::INVAL);
    }
    // SAFETY: it is three bytes, as the caller promises.
    let oui = unsafe { oui.cast::<[u8; 3]>().read() };
    let agent = AgentRequest {
        class,
        version: 1,
        qpn: 1,
        oui,
        rmpp_version,
        user_rmpp: false,
        // SAFETY: as the caller promises.
        methods: unsafe { methods(method_mask) },
    };
    registered(register(fd, agent))
}

/// Registers an agent; 0, and its number in `agent_id`. An error is a positive number.
///
/// # Safety
/// The pointers are null or to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register2(
    fd: c_int,
    attributes: *mut RegistrationAttributes,
    agent_id: *mut u32,
) -> c_int {
    // SAFETY: the pointer is null or to attributes, as the caller promises.
    let Some(attributes) = (unsafe { attributes.as_mut() }) else {
        return -fail(Errno::INVAL);
    };
    let [high, oui @ ..] = attributes.oui.to_be_bytes();
    let class = attributes.mgmt_class;
    let has_oui = wire::MgmtClass(class).has_oui();
    if agent_id.is_null() || has_oui && (high != 0 || oui == [0; 3]) {
        return -fail(Errno::INVAL);
    }
    let [low_methods, high_methods] = attributes.method_mask.map(u128::from);
    let agent = AgentRequest {
        class,
        version: attributes.mgmt_class_version,
        qpn: queue_pair(class),
        oui,
        rmpp_version: attributes.rmpp_version,
        user_rmpp: attributes.flags & USER_RMPP != 0,
        methods: high_methods << 64 | low_methods,
    };
    let registered = match attributes.flags & !USER_RMPP {
        0 => register(fd, agent),
        _ => Err(Errno::INVAL),
    };
    match registered {
        Ok(number) => {
            // SAFETY: it is not null, and to a number as the caller promises.
            unsafe { agent_id.write(number) };
            0
        }
        Err(error) => {
            // Which flags there are.
            attributes.flags = USER_RMPP;
            -fail(error)
        }
    }
}

/// Ends an agent. Fails with -1.
#[unsafe(no_mangle)]
pub extern "C" fn umad_unregister(fd: c_int, agentid: c_int) -> c_int {
    // SAFETY: the program keeps its port open meanwhile.
    let ended = unsafe { borrow(fd) }.and_then(|descriptor| {
        let agent = u32::try_from(agentid).map_err(|_| Errno::INVAL)?;
        client::unregister(descriptor, agent)
    });
    match ended {
        Ok(()) => 0,
        Err(error) => {
            fail(error);
            -1
        }
    }
}

/// Sends the MAD of a user MAD, of `length` bytes.
///
/// # Safety
/// The pointer is null or to a user MAD with so many bytes of MAD behind its header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_send(
    fd: c_int,
    agentid: c_int,
    umad: *mut UserMad,
    length: c_int,
    timeout_ms: c_int,
    retries: c_int,
) -> c_int {
    let length = usize::try_from(length).unwrap_or_default();
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    let Some(header) = (unsafe { umad.as_mut() }) else {
        return fail(Errno::INVAL);
    };
    header.timeout_ms = timeout_ms.cast_unsigned();
    header.retries = retries.cast_unsigned();
    header.agent_id = agentid.cast_unsigned();
    if mads::dumps_sends() {
        // SAFETY: it is a user MAD.
        unsafe { mads::umad_dump(umad) };
    }
    let whole = UserMadHeader::LEN + length;
    // SAFETY: the header and `length` bytes behind it are there, as the caller promises, and nothing writes
    // to them meanwhile.
    let bytes = unsafe { core::slice::from_raw_parts(umad.cast::<u8>(), whole) };
    // SAFETY: the program keeps its port open meanwhile.
    let sent = unsafe { borrow(fd) }.and_then(|descriptor| {
        let (header, mad) = UserMadHeader::parse(bytes).map_err(|_| Errno::INVAL)?;
        match mad.len() < MAD_BYTES_MIN {
            true => Err(Errno::INVAL),
            false => client::send(descriptor, &header, mad),
        }
    });
    match sent {
        Ok(()) => 0,
        Err(error) => {
            fail(error);
            -Errno::IO.raw_os_error()
        }
    }
}

unsafe extern "C-unwind" {
    /// poll(2) as the C library has it: a point at which a thread can be cancelled, which unwinds its stack
    /// from here. OpenSM ends its receiving thread so.
    fn poll(fds: *mut libc::pollfd, nfds: libc::nfds_t, timeout: c_int) -> c_int;
}

/// Waits until a MAD has come, or for `timeout_ms` unless that is below 0. Holds nothing that would have to be
/// dropped when the thread is cancelled.
fn wait(fd: c_int, timeout_ms: c_int) -> c_int {
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: it is one entry, which outlives the call.
    match unsafe { poll(&raw mut polled, 1, timeout_ms) } {
        1 => 0,
        0 => fail(Errno::TIMEDOUT),
        // errno says why.
        _ => -Errno::IO.raw_os_error(),
    }
}

/// Waits until a MAD has come.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_poll(fd: c_int, timeout_ms: c_int) -> c_int {
    wait(fd, timeout_ms)
}

/// Receives a MAD of at most `*length` bytes behind the header of the user MAD, waiting for it unless
/// `timeout_ms` is 0; the number of its agent. The MAD's length is in `*length` then; so it is when there is
/// too little room (`ENOSPC`), and the MAD can be received still.
///
/// # Safety
/// The pointers are null or to a user MAD with so much room behind its header, and to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_recv(
    fd: c_int,
    umad: *mut c_void,
    length: *mut c_int,
    timeout_ms: c_int,
) -> c_int {
    if umad.is_null() || length.is_null() {
        return fail(Errno::INVAL);
    }
    if timeout_ms != 0 {
        let waited = wait(fd, timeout_ms);
        if waited < 0 {
            return waited;
        }
    }
    // SAFETY: it is not null, and to a number as the caller promises.
    let room = usize::try_from(unsafe { length.read() }).unwrap_or_default();
    let whole = UserMadHeader::LEN + room;
    // SAFETY: there is so much room, as the caller promises, which is not used otherwise meanwhile.
    let buffer = unsafe { core::slice::from_raw_parts_mut(umad.cast::<MaybeUninit<u8>>(), whole) };
    // SAFETY: the program keeps its port open meanwhile.
    let received = unsafe { borrow(fd) }.and_then(|descriptor| client::receive(descriptor, buffer));
    let mad_length = |whole: usize| {
        let mad = whole.saturating_sub(UserMadHeader::LEN);
        c_int::try_from(mad).unwrap_or(c_int::MAX)
    };
    let (result, whole) = match received {
        Ok(Received::Whole { agent, length }) => {
            (c_int::try_from(agent).unwrap_or(c_int::MAX), length)
        }
        Ok(Received::NeedsRoom { length }) => (fail(Errno::NOSPC), length),
        Err(error) => return fail(error),
    };
    // SAFETY: it is not null, and to a number as the caller promises.
    unsafe { length.write(mad_length(whole)) };
    result
}
