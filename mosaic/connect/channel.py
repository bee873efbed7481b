"""The only place that opens a gRPC channel: for clients, workers and their telemetry."""

import grpc

from mosaic.connect.endpoint import Address

# The largest answer of the daemon; what it accepts itself is much smaller.
_MAX_RECEIVED = 64 * 2**20


def open_channel(address: Address) -> grpc.Channel:
    """A channel to a daemon, over TLS if the daemon has a certificate.

    Nothing is sent before the first call. A client has to call `prove` before it sends its token.
    """
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", _MAX_RECEIVED),
        # A proxy in the environment is meant for the web. Through it our calls would fail or,
        # worse, be read: the first message of a worker carries its launch key.
        ("grpc.enable_http_proxy", 0),
        # A daemon that was away is back on this machine: by default gRPC would look again only
        # every two minutes, long after the daemon has given its worker up.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    if not address.certificate:
        return grpc.insecure_channel(address.target, options=options)
    # The daemon's own certificate is the only one trusted here, so that the name says nothing
    # more. Asking for a name that it carries lets a daemon be reached at any of its addresses.
    options.append(("grpc.ssl_target_name_override", address.name))
    credentials = grpc.ssl_channel_credentials(root_certificates=address.certificate.encode())
    return grpc.secure_channel(address.target, credentials, options=options)
