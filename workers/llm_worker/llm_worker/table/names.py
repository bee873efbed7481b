"""The games for several players, by name: for settings and lists, which import no library."""

# Name and number of seats; `games` knows the rest.
TABLE_GAMES = {"connect_four_v3": 2, "tictactoe_v3": 2, "pursuit_v5": 2}
