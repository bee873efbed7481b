"""How clients and workers reach the daemon: authentication, RPC handlers, messages."""
