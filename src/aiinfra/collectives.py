"""Time of collective operations in the alpha-beta model: a fixed latency a step, and bytes over bandwidth."""

from aiinfra.units import count, number


def ring_all_reduce_s(message_bytes, n_ranks, link_bytes_per_s, alpha_s=0.0):
    """Time of a ring all-reduce in the alpha-beta model, in seconds.

    t = 2 (n - 1) alpha + 2 (n - 1)/n * message / link            [thakur2005]

    Parameters
    ----------
    message_bytes : float       size of the tensor on each rank
    n_ranks : int               >= 1; one rank takes no time
    link_bytes_per_s : float    one direction of one rank's link, not the datasheet's total
    alpha_s : float             latency of one step

    Ignores overlap with compute, protocol overhead and congestion. Raises ValueError on a negative, zero-bandwidth
    or non-finite argument.

    >>> round(ring_all_reduce_s(1e9, 8, 450e9), 9)
    0.003888889
    """
    message_bytes = number("message_bytes", message_bytes)
    n_ranks = count("n_ranks", n_ranks)
    link_bytes_per_s = number("link_bytes_per_s", link_bytes_per_s, above=True)
    alpha_s = number("alpha_s", alpha_s)
    return 2 * (n_ranks - 1) * alpha_s + ring_all_reduce_sent_bytes(message_bytes, n_ranks) / link_bytes_per_s


def ring_all_reduce_sent_bytes(message_bytes, n_ranks):
    """Bytes that each rank sends in a ring all-reduce: 2 (n - 1)/n of the message.    [patarasuk2009]

    Half of it in the reduce-scatter, half in the all-gather; each rank receives as much as it sends.

    >>> ring_all_reduce_sent_bytes(8e9, 4)
    12000000000.0
    """
    message_bytes = number("message_bytes", message_bytes)
    n_ranks = count("n_ranks", n_ranks)
    return 2 * (n_ranks - 1) / n_ranks * message_bytes
