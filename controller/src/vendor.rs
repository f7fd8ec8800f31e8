//! Requests of the project's own management class: connections with promised bandwidth, and
//! windows. Formats in [`wire::vendor`].

use link::Time;
use wire::vendor::{QOS_CHANGE, QOS_CONNECTION, WINDOW_REQUEST, WINDOW_STATE};
use wire::{Lid, Mad, MadHeader, MadStatus, Method};

use crate::fabric::Fabric;
use crate::qos::Qos;
use crate::windows::Windows;

/// The parts that requests of this class are for.
pub(crate) struct Services<'a> {
    /// Connections with promised bandwidth.
    pub(crate) qos: &'a mut Qos,
    /// Windows without interference.
    pub(crate) windows: &'a mut Windows,
}

impl Services<'_> {
    /// A program on the host at `lid` asks. Returns the response, unless it waits for tables.
    pub(crate) fn request(
        &mut self,
        now: Time,
        lid: Lid,
        request: &Mad,
        fabric: &Fabric,
    ) -> Option<Mad> {
        match (request.method(), request.attr_id()) {
            (Method::SET | Method::DELETE | Method::GET, QOS_CONNECTION) => {
                self.qos.request(now, lid, request)
            }
            (Method::SET, WINDOW_REQUEST) => Some(response(
                request,
                self.window_request(now, lid, request, fabric),
            )),
            (Method::GET, WINDOW_STATE) => {
                let mut state = response(request, MadStatus::OK);
                state.set_vendor_attribute(&self.windows.state());
                Some(state)
            }
            _ => Some(response(request, MadStatus::BAD_METHOD_ATTRIBUTE)),
        }
    }

    fn window_request(&mut self, now: Time, lid: Lid, request: &Mad, fabric: &Fabric) -> MadStatus {
        let Ok(asked) = request.vendor_attribute() else {
            return MadStatus::BAD_FIELD;
        };
        let port_guid = |lid| fabric.port_guid(lid);
        let may_ask = |pair| fabric.may_act_for(lid, pair);
        match self.windows.request(now, &asked, port_guid, may_ask) {
            Ok(()) => MadStatus::OK,
            Err(error) => error.status(),
        }
    }

    /// A host answers a message of the manager.
    pub(crate) fn answered(&mut self, now: Time, answer: &Mad) {
        match answer.attr_id() {
            QOS_CHANGE => self.qos.notice_acknowledged(answer),
            _ => self.windows.answered(now, answer),
        }
    }
}

/// The response to a request, with the request's data.
pub(crate) fn response(request: &Mad, status: MadStatus) -> Mad {
    let mut response = *request;
    let header = request.header();
    response.set_header(&MadHeader {
        method: Method(header.method.0 | 0x80),
        status,
        ..header
    });
    response
}
