"""Tools of MCP servers (Model Context Protocol), by the official SDK (extra ``mcp``)."""
