"""Whether a web host answers, directly or through a proxy."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping

# What a proxy answers in place of a host that it cannot reach or may not ask.
_FROM_A_PROXY = frozenset({407, 502, 503, 504})


def unreachable(url: str, timeout_s: float, proxies: Mapping[str, str] | None = None) -> str:
    """Why a host does not answer; empty when it does.

    Args:
        url: Any page of the host.
        timeout_s: How long to wait.
        proxies: The proxy for each scheme; those of the environment when not given.
    """
    handlers = [] if proxies is None else [urllib.request.ProxyHandler(dict(proxies))]
    try:
        urllib.request.build_opener(*handlers).open(url, timeout=timeout_s).close()
    except urllib.error.HTTPError as answer:
        # A refusal is an answer too, unless it is a proxy that cannot get through.
        gone = answer.code in _FROM_A_PROXY
        answer.close()
        return f"{url}: {answer}" if gone else ""
    # The last kind is no `OSError`: something answers that does not speak HTTP.
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{url}: {error}"
    return ""
