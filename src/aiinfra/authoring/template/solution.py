# %% [markdown]
# # Lab: TITLE
#
# **Question.** What does this lab answer?
#
# **Time.** 60 to 90 minutes. **You need** a CPU; nothing else.

# %%
from aiinfra.checks import check
from aiinfra.explorers.STEM import doubling
from aiinfra.predictions import predict, reveal, show_calibration

seed = 0

# %% [markdown]
# ## Predict first
#
# Replace `...` by two numbers, `low=` and `high=`, that you are 90 % sure hold the answer between them.

# %% tags=["prediction"]
predict(
    "STEM-doubled",
    "Twice 21",
    # BEGIN ANSWER
    low=40,
    high=45,
    # END ANSWER
)

# %% [markdown]
# ## Explore

# %%
doubling()

# %% [markdown]
# ## Task: doubled
#
# Write the function and run the cell; the check says what it sees.


# %% tags=["answer"] task="doubled"
def doubled(value):
    """Twice `value`."""
    # BEGIN ANSWER
    return 2 * value
    # END ANSWER


# %%
check("STEM", doubled)

# %% [markdown]
# ## Measure

# %%
reveal("STEM-doubled", 2 * 21)

# %% [markdown]
# ## What to take away

# %%
show_calibration()
